// What one TypeScript client sees: run in the folder it was installed in as `node scenario.mjs CONTROL_URL PLAN`.
// Prints one JSON object, its names and shapes those of scenario.py.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const [control, planFile] = process.argv.slice(2);
const require = createRequire(`${process.cwd()}/`);
const { Pinecone } = require('@pinecone-database/pinecone');
const { version } = require('@pinecone-database/pinecone/package.json');
const major = Number(version.split('.')[0]);
const plan = JSON.parse(readFileSync(planFile, 'utf8'));
const SCRATCH = 'scratch';

const query = (asked) => ({
  topK: asked.topK,
  includeValues: asked.includeValues,
  includeMetadata: asked.includeMetadata,
  ...(asked.filter && { filter: asked.filter }),
  ...(asked.id && { id: asked.id }),
  ...(asked.vector && { vector: asked.vector }),
  ...(asked.sparse && { sparseVector: asked.sparse }),
});

const matches = (answer) =>
  answer.matches.map((match) => ({
    id: match.id,
    score: match.score,
    values: match.values ?? null,
    sparse: match.sparseValues ?? null,
    metadata: match.metadata ?? null,
  }));

const records = (answer) =>
  Object.fromEntries(Object.entries(answer.records).sort().map(([id, one]) => [id, [one.values, one.metadata]]));

const stats = (answer) => [answer.dimension ?? null, answer.totalRecordCount, Object.keys(answer.namespaces).sort()];

// From major 8 on, every call takes one object.
const worded = (name, value) => (major >= 8 ? { [name]: value } : value);

const story = (index) => {
  const scratch = index.namespace(SCRATCH);
  const made = [0, 1, 2].map((n) => ({ id: `s${n}`, values: plan.fan_out.vector, metadata: { n } }));
  return {
    upsert: async () => (await scratch.upsert(worded('records', made))) ?? 'done',
    fetch: async () => records(await scratch.fetch(worded('ids', ['s0', 's1', 'nobody']))),
    list: async () => (await scratch.listPaginated({ prefix: 's', limit: 2 })).vectors.map((one) => one.id),
    update: async () => (await scratch.update({ id: 's0', metadata: { n: 9 } })) ?? 'done',
    'fetch again': async () => records(await scratch.fetch(worded('ids', ['s0']))),
    stats: async () => stats(await index.describeIndexStats()),
    delete: async () => (await scratch.deleteAll()) ?? 'done',
    'stats again': async () => stats(await index.describeIndexStats()),
    'wrong size': async () => matches(await index.query({ vector: [1.0], topK: 3 })),
  };
};

const seen = async (call) => {
  try {
    return await call();
  } catch (error) {
    return { error: error.name };
  }
};

const pinecone = new Pinecone({ apiKey: 'key', controllerHostUrl: control });
const found = {};
for (const name of Object.keys(plan.indexes)) {
  const described = await pinecone.describeIndex(name);
  const host = described.host.includes('://') ? described.host : `https://${described.host}`;
  found[`${name} leads here`] = new URL(host).host === new URL(control).host;
  found[`${name} is described`] = [described.name, described.dimension ?? null, described.metric ?? null];
  const index = pinecone.index(name, described.host);
  for (const asked of plan.queries.filter((one) => one.index === name)) {
    const target = asked.namespace ? index.namespace(asked.namespace) : index;
    found[asked.name] = await seen(async () => matches(await target.query(query(asked))));
  }
  if (name === 'clean') {
    for (const [title, call] of Object.entries(story(index))) {
      found[title] = await seen(call);
    }
  }
}
console.log(JSON.stringify(found));
