// LangChain for JavaScript, by which n8n's Qdrant node writes: `content` and `metadata`, the latter as n8n's data loader makes it.
// `langchain_js.mjs qdrant URL plan.json`, run in the folder that has the packages.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const packages = createRequire(`${process.cwd()}/`);
const load = (name) => import(pathToFileURL(packages.resolve(name)).href);
const { QdrantVectorStore } = await load("@langchain/qdrant");
const { Document } = await load("@langchain/core/documents");

const [, , , url, file] = process.argv;
const { collection, passages } = JSON.parse(readFileSync(file, "utf8"));
const embeddings = { embedDocuments: async () => [], embedQuery: async () => [] };
const vectors = { size: passages[0].vector.length, distance: "Cosine" };
const store = new QdrantVectorStore(embeddings, { url, collectionName: collection, collectionConfig: { vectors } });
await store.addVectors(
  passages.map((passage) => passage.vector),
  passages.map(
    (passage) =>
      new Document({
        pageContent: passage.text,
        metadata: {
          source: "blob",
          blobType: "application/json",
          loc: { lines: { from: passage.page, to: passage.page } },
          title: passage.title,
          file: passage.file,
          date: passage.date,
        },
      }),
  ),
  { ids: passages.map((passage) => passage.identifier) },
);
