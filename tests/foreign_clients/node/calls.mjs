// The calls. A name that ends in ".all" asks for everything that the name before it asks for a page of.

const number = (value) => ({ pointIdOptions: { case: 'num', value: BigInt(value) } });
const dense = (data) => ({ variant: { case: 'dense', value: { data } } });
const byId = (id) => ({ variant: { case: 'id', value: number(id) } });
const nearest = (input) => ({ variant: { case: 'nearest', value: input } });
const fusion = { variant: { case: 'fusion', value: 1 } }; // DBSF: rank fusion ties, and the engine breaks ties as it likes
const payload = (kind, value) => ({ selectorOptions: { case: kind, value } });
const ALL_PAYLOAD = payload('enable', true);
const ALL_VECTORS = { selectorOptions: { case: 'enable', value: true } };
const WAIT = { wait: true };

const below = (lt) => ({
  must: [{ conditionOneOf: { case: 'field', value: { key: 'base', range: { lt } } } }],
});

const stored = (one, isNamed) => {
  const vector = { vector: { case: 'dense', value: { data: one.dense } } };
  const small = { vector: { case: 'dense', value: { data: one.small } } };
  const words = { vector: { case: 'sparse', value: { indices: one.indices, values: one.values } } };
  const vectorsOptions = isNamed
    ? { case: 'vectors', value: { vectors: { dense: vector, small, words } } }
    : { case: 'vector', value: vector };
  const kind = (name, value) => ({ kind: { case: name, value } });
  const list = kind('listValue', { values: [kind('stringValue', 'x'), kind('integerValue', 1n)] });
  return {
    id: number(one.id),
    vectors: { vectorsOptions },
    payload: {
      text: kind('stringValue', one.text),
      base: kind('integerValue', BigInt(one.base)),
      big: kind('integerValue', 2n ** 60n),
      half: kind('doubleValue', 0.5),
      none: kind('nullValue', 0),
      deep: kind('structValue', { fields: { flag: kind('boolValue', true), of: list } }),
    },
  };
};

export const write = async (ask, plan) => {
  const params = (vector, distance) => ({ size: BigInt(vector.length), distance });
  const one = params(plan.query.dense, 1);
  const map = { dense: one, small: params(plan.query.small, 2) };
  for (const collectionName of ['clean', 'copied', 'named']) {
    const isNamed = collectionName === 'named';
    const config = isNamed ? { case: 'paramsMap', value: { map } } : { case: 'params', value: one };
    const sparseVectorsConfig = isNamed ? { map: { words: {} } } : undefined;
    const made = { collectionName, vectorsConfig: { config }, sparseVectorsConfig };
    await ask(`${collectionName} create`, 'collections', 'create', made);
    const points = plan.records[collectionName].map((record) => stored(record, isNamed));
    await ask(`${collectionName} upsert`, 'points', 'upsert', { collectionName, ...WAIT, points });
  }
};

const pages = async (ask, plan, collectionName, asked) => {
  for (const [name, one] of Object.entries(asked)) {
    const whole = { collectionName, ...one, limit: BigInt(plan.all), offset: undefined };
    await ask(`${collectionName}.${name}`, 'points', 'query', { collectionName, ...one, limit: BigInt(plan.top_k) });
    await ask(`${collectionName}.${name}.all`, 'points', 'query', whole);
  }
};

const unnamed = async (ask, plan, collectionName) => {
  const [first, second, third] = plan.known;
  const query = nearest(dense(plan.query.dense));
  const half = { limit: BigInt(plan.all) / 2n };
  const recommend = { variant: { case: 'recommend', value: { positive: [byId(first), byId(second)] } } };
  await pages(ask, plan, collectionName, {
    nearest: { query },
    offset: { query, offset: 3n },
    payload: { query, withPayload: ALL_PAYLOAD },
    included: { query, withPayload: payload('include', { fields: ['base', 'deep.of'] }) },
    excluded: { query, withPayload: payload('exclude', { fields: ['text'] }) },
    vectors: { query, withVectors: ALL_VECTORS },
    both: { query, withVectors: ALL_VECTORS, withPayload: ALL_PAYLOAD },
    filter: { query, filter: below(plan.below), withPayload: payload('enable', false) },
    threshold: { query, scoreThreshold: 0.01 },
    exact: { query, params: { exact: true } },
    id: { query: nearest(byId(first)) },
    recommend: { query: recommend },
    prefetch: { prefetch: [{ query, ...half }, { query: nearest(byId(first)), ...half }], query: fusion },
  });
  await ask(`${collectionName}.default limit`, 'points', 'query', { collectionName, query });
  const example = (id) => ({ example: { case: 'id', value: number(id) } });
  for (const [suffix, count] of [['', plan.top_k], ['.all', plan.all]]) {
    const same = { collectionName, limit: BigInt(count) };
    const queryPoints = [
      { ...same, query, withPayload: ALL_PAYLOAD },
      { ...same, query: nearest(byId(first)) },
      { ...same, query, withVectors: ALL_VECTORS },
    ];
    const search = { ...same, vector: plan.query.dense, withPayload: ALL_PAYLOAD };
    const target = { target: { case: 'single', value: example(first) } };
    const context = [{ positive: example(second), negative: example(third) }];
    const old = { ...same, positive: [number(first), number(second)], negative: [number(third)] };
    const name = (kind) => `${collectionName}.${kind}${suffix}`;
    await ask(name('batch'), 'points', 'queryBatch', { collectionName, queryPoints });
    await ask(name('search'), 'points', 'search', search);
    await ask(name('search batch'), 'points', 'searchBatch', { collectionName, searchPoints: [search, search] });
    await ask(name('recommend old'), 'points', 'recommend', old);
    await ask(name('discover'), 'points', 'discover', { ...same, target, context });
  }
};

export const searches = async (ask, plan) => {
  await unnamed(ask, plan, 'clean');
  await unnamed(ask, plan, 'copied');
  const half = { limit: BigInt(plan.all) / 2n };
  const query = nearest(dense(plan.query.dense));
  const { indices, values } = plan.query;
  const sparse = nearest({ variant: { case: 'sparse', value: { indices, values } } });
  const first = { query, using: 'dense' };
  const words = { query: sparse, using: 'words' };
  const small = { selectorOptions: { case: 'include', value: { names: ['small'] } } };
  await pages(ask, plan, 'named', {
    dense: first,
    small: { query: nearest(dense(plan.query.small)), using: 'small' },
    other: { ...first, withVectors: small },
    sparse: { ...words, withVectors: ALL_VECTORS },
    hybrid: { prefetch: [{ ...first, ...half }, { ...words, ...half }], query: fusion, withPayload: ALL_PAYLOAD },
  });
};

// What must come back as it is in every mode.
export const others = async (ask, plan) => {
  const collectionName = 'copied';
  const query = nearest(dense(plan.query.dense));
  const limit = BigInt(plan.top_k);
  const mmr = { variant: { case: 'nearestWithMmr', value: { nearest: dense(plan.query.dense), mmr: { diversity: 0.5 } } } };
  const ids = plan.known.map(number);
  await ask('health', 'service', 'healthCheck', {});
  await ask('collections', 'collections', 'list', {});
  await ask('exists', 'collections', 'collectionExists', { collectionName: 'nobody' });
  await ask('info', 'collections', 'get', { collectionName: 'named' });
  await ask('count', 'points', 'count', { collectionName, filter: below(plan.below) });
  await ask('get', 'points', 'get', { collectionName: 'named', ids, withVectors: ALL_VECTORS });
  await ask('scroll', 'points', 'scroll', { collectionName, limit: 5 });
  await ask('groups', 'points', 'queryGroups', { collectionName, query, groupBy: 'base', limit, groupSize: 2n });
  await ask('mmr', 'points', 'query', { collectionName, query: mmr, limit });
  await ask('one', 'points', 'query', { collectionName, query, limit: 1n });
  await ask('off by metadata', 'points', 'query', { collectionName, query, limit }, { 'x-vecsieve-mode': 'off' });
  await ask('error: no such collection', 'points', 'query', { collectionName: 'nobody', query });
  await ask('error: wrong size', 'points', 'query', { collectionName, query: nearest(dense([1, 2, 3])), limit });
};

// Writes, a look at what was written, and everything is taken away.
export const change = async (ask, plan) => {
  const collectionName = 'copied';
  const [first, second] = plan.known;
  const these = (id) => ({ pointsSelectorOneOf: { case: 'points', value: { ids: [number(id)] } } });
  const added = { new: { kind: { case: 'stringValue', value: 'größe' } } };
  const asked = { collectionName, ids: plan.known.map(number), withPayload: ALL_PAYLOAD };
  await ask('set payload', 'points', 'setPayload', { collectionName, ...WAIT, pointsSelector: these(first), payload: added });
  await ask('delete points', 'points', 'delete', { collectionName, ...WAIT, points: these(second) });
  await ask('written', 'points', 'get', asked);
  for (const name of ['clean', 'copied', 'named']) {
    await ask(`${name} delete`, 'collections', 'delete', { collectionName: name });
  }
};
