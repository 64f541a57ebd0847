// The scenario of tests/foreign_clients with Qdrant's JavaScript client over gRPC: run in the folder it was installed in as
// `node scenario.mjs HOST PORT PLAN`. Prints what each call was answered, as JSON, under the names that go/ has.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { change, others, searches, write } from './calls.mjs';

const [host, port, planFile] = process.argv.slice(2);
const require = createRequire(`${process.cwd()}/`);
const library = require('@qdrant/js-client-grpc');
const { toBinary } = createRequire(require.resolve('@qdrant/js-client-grpc'))('@bufbuild/protobuf');
const plan = JSON.parse(readFileSync(planFile, 'utf8'));
const client = new library.QdrantClient({ host, port: Number(port), checkCompatibility: false });
const SERVICES = { points: 'Points', collections: 'Collections', service: 'Qdrant' };
const calls = [];

const values = (headers) => Object.fromEntries([...headers].map(([key, value]) => [key, [value]]));

// The client gives messages, not bytes; written again they say the same, unknown fields included.
const bytes = (message) => toBinary(library[`${message.$typeName.split('.').pop()}Schema`], message);

const ask = async (name, service, method, message, headers = {}) => {
  const path = `/qdrant.${SERVICES[service]}/${method[0].toUpperCase()}${method.slice(1)}`;
  const made = { name, path, code: 0, details: '', reply: '', initial: {}, trailing: {} };
  calls.push(made);
  const onHeader = (found) => (made.initial = values(found));
  const onTrailer = (found) => (made.trailing = values(found));
  try {
    const answer = await client.api(service)[method](message, { headers, onHeader, onTrailer });
    made.reply = Buffer.from(bytes(answer)).toString('base64');
  } catch (error) {
    if (!(error instanceof library.ConnectError)) throw error;
    [made.code, made.details] = [error.code, error.rawMessage];
  }
};

await write(ask, plan);
await searches(ask, plan);
await others(ask, plan);
await change(ask, plan);
console.log(JSON.stringify(calls));
