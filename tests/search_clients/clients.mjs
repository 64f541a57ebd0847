// What a JavaScript client sees: `node clients.mjs KIND URL INDEX PLAN`; prints one JSON object: searches -> texts.
import { readFileSync } from "node:fs";

const [kind, url, index, planFile] = process.argv.slice(2);
const plan = JSON.parse(readFileSync(planFile, "utf-8"));
const isOpen = kind === "js-opensearch";
const { Client } = await import(isOpen ? "@opensearch-project/opensearch" : "@elastic/elasticsearch");
const client = new Client({ node: url, maxRetries: 0 });
const given = (body) => (isOpen ? { body } : body);
const texts = (answer) => (answer.body ?? answer).hits.hits.map((hit) => hit._source.text);
const dimension = plan.query.length;
const vector = isOpen
  ? { type: "knn_vector", dimension, method: { name: "hnsw", space_type: "cosinesimil", engine: "lucene" } }
  : { type: "dense_vector", dims: dimension, similarity: "cosine" };
const settings = isOpen ? { index: { knn: true } } : {};
await client.indices.create({ index, ...given({ settings, mappings: { properties: { vector } } }) });
const lines = plan.passages.flatMap(({ id, text, vector }) => [{ index: { _index: index, _id: id } }, { text, vector }]);
await client.bulk(isOpen ? { refresh: true, body: lines } : { refresh: true, operations: lines });
const clause = isOpen
  ? { query: { knn: { vector: { vector: plan.query, k: plan.count } } } }
  : { knn: { field: "vector", query_vector: plan.query, k: plan.count, num_candidates: 100 } };
const body = { size: plan.count, _source: ["text"], ...clause };
const searched = await client.search({ index, ...given(body) });
const all = [{ index }, body, { index }, body];
const several = await client.msearch(isOpen ? { body: all } : { searches: all });
const responses = (several.body ?? several).responses;
const counted = await client.count({ index });
console.log(JSON.stringify({ search: texts(searched), first: texts(responses[0]), second: texts(responses[1]), count: [String((counted.body ?? counted).count)] }));
await client.close();
