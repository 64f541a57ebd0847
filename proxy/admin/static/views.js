// The views. Names and texts from the database are inserted as text nodes, never as markup.
import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { ask, usePolled } from "./requests.js";

const OUTCOMES = { dedup: "on", shadow: "shadow" };
// Readable labels for metric values. Values without a label are shown by name.
const MEANINGS = {
  dedup: "deduplicated",
  bypass: "passed through",
  fail_open: "original reply after a failure",
  equal_text: "the same text",
  contained: "all of it in one result",
  joined: "all of it in pieces or several results",
  edited: "edited copies of long texts",
  reworded: "in other words",
  vectors: "near by vector",
  single_result: "only one result requested",
  ordering_chosen: "the client set the order",
  not_json: "not a JSON search",
  disabled: "switched off",
  nothing_to_do: "nothing to compare",
  shadow_not_sampled: "not sampled in shadow mode",
  grow: "fetch of a larger pool",
  recall: "vectors not in memory",
  lookup: "vectors by id",
  replay: "original search sent again",
  hedge: "hedge for a slow search",
  shadow: "shadow mode",
};

export const whole = (number) => Math.round(number).toLocaleString("en-GB");
const fixed = (number, digits = 1) => (number === null || number === undefined ? "–" : number.toFixed(digits));
export const share = (part, of) => (of ? `${Math.round((100 * part) / of)} %` : "–");
const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString("en-GB");
const median = (numbers) => (numbers.length ? [...numbers].sort((a, b) => a - b)[numbers.length >> 1] : null);
const sum = (rows, name) => rows.reduce((total, row) => total + row[name], 0);
export const ms = (value) => (value === null ? "–" : value < 10 ? `${value.toFixed(2)} ms` : `${value.toFixed(0)} ms`);
const named = (words) => words.replaceAll("_", " ");

export function bytes(count) {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let at = 0;
  while (count >= 1000 && at < units.length - 1) {
    count /= 1000;
    at += 1;
  }
  return `${at && count < 100 ? count.toFixed(1) : Math.round(count)} ${units[at]}`;
}

export const Tile = ({ value, of, label, hint }) => html`<div class="tile" title=${hint}>
  <strong>${value}</strong>${of && html`<span class="of"> ${of}</span>`}<span class="label">${label}</span>
</div>`;

export const Empty = ({ title, children }) => html`<div class="empty"><h2>${title}</h2>${children}</div>`;

export const Waiting = ({ error }) =>
  error ? html`<${Empty} title="This cannot be shown"><p>${error.message}</p></${Empty}>` : html`<p class="quiet">Reading…</p>`;

export const Bar = ({ part, of, kind = "" }) => html`<span class=${`bar ${kind}`} aria-hidden="true">
  <span style=${{ width: `${of ? Math.min(100, (100 * part) / of) : 0}%` }}></span>
</span>`;

// The words are the server's: the same as in /status, the log and `vecsieve check --watch`.
export const Verdict = ({ verdict }) => html`<section class=${`card verdict ${verdict.figures.decision.replaceAll(" ", "-")}`} aria-label="Verdict">
  <p class="strong">${verdict.sentence}</p>
  <details><summary>Figures, with intervals of 95 %</summary>
    <dl>${verdict.details.map(([name, words]) => html`<div><dt>${name}</dt><dd>${words}</dd></div>`)}</dl>
    ${
      verdict.collections.length > 1 &&
      html`<ul>${verdict.collections.map((row) => html`<li><span class="strong">${row.collection}</span> ${row.sentence}</li>`)}</ul>`
    }
  </details>
</section>`;

export function Live({ verdict, searches, keep, error, isPaused, pause, texts }) {
  const [onlyChanged, setOnlyChanged] = useState(false);
  const [filter, setFilter] = useState("");
  if (keep === null) return html`<h1>Searches</h1><${Waiting} error=${error} />`;
  const results = sum(searches, "results");
  const count = searches.length || 1;
  const term = filter.toLowerCase();
  const rows = searches.filter((row) => (row.repeats || !onlyChanged) && `${row.collection} ${row.words ?? ""}`.toLowerCase().includes(term));
  return html`<div class="head">
      <div><h1>Searches</h1><p class="quiet">Live, newest first. Open a search to see what changed.</p></div>
      <div class="headtools"><label>Filter <input value=${filter} onInput=${(event) => setFilter(event.target.value)} placeholder="collection or words" /></label>
        <label class="check"><input type="checkbox" checked=${onlyChanged} onChange=${(event) => setOnlyChanged(event.target.checked)} />Only with repeats</label>
        <button onClick=${pause} aria-pressed=${isPaused}>${isPaused ? "Resume" : "Pause"}</button></div>
    </div>
    ${verdict && html`<${Verdict} verdict=${verdict} />`}
    ${
      searches.length === 0
        ? html`<${Empty} title=${keep === 0 ? "No searches are kept" : "No search yet"}>
            ${
              keep === 0
                ? html`<p>Set <code>explain.keep</code> to a number. The default is 0 if the admin port is not on loopback, because
                    ids may be confidential.</p>`
                : html`<p>Point a client at VecSieve's port and search. Searches that pass through unchanged are counted under
                    <a href="#/cost"> Cost</a>.</p>`
            }
          </${Empty}>`
        : html`<div class="tiles">
              <${Tile} value=${share(sum(searches, "changed"), count)} of=${`of ${whole(searches.length)}`} label="answers changed" hint="VecSieve keeps only the most recent searches" />
              <${Tile} value=${fixed((sum(searches, "proven") + sum(searches, "judged")) / count)} of=${`of ${fixed(results / count, 0)}`} label="results were repeats that left" hint=${`${sum(searches, "proven")} proven by texts, ${sum(searches, "judged")} judged`} />
              <${Tile} value=${whole(sum(searches, "saved_tokens") / count)} label="tokens saved a search" hint="an estimate, of the texts of repeats that left" />
              <${Tile} value=${ms(median(searches.map((row) => row.added_ms)))} label="added (median)" />
            </div>
            <table class="rows">
              <thead><tr><th>Time</th><th>Collection</th><th class="n">Repeats</th><th class="wide"></th><th class="n wide">Pool</th>
                <th class="n">Added</th><th class="wide">Mode</th></tr></thead>
              <tbody>${rows.map(
                (row) => html`<tr key=${row.number} data-entry>
                  <td class="time"><a href=${`#/search/${row.number}`}>${clock(row.at)}</a></td>
                  <td class="name"><a href=${`#/search/${row.number}`} tabindex="-1">${row.collection}</a> <span class="quiet wide">${named(row.operation)}</span>
                    ${row.words && html`<span class="words">${row.words}</span>`}</td>
                  <td class="n">${row.repeats ? html`<b>${row.repeats}</b>` : "0"}<span class="quiet"> of ${row.results}</span></td>
                  <td class="wide"><${Bar} part=${row.repeats} of=${row.results} kind="bad" /></td>
                  <td class="n wide">${row.candidates}<span class="quiet"> → ${row.clusters} distinct</span></td>
                  <td class="n">${fixed(row.added_ms)} ms</td>
                  <td class="wide">${OUTCOMES[row.outcome] ?? row.outcome}${row.changed ? "" : html`<span class="quiet">, unchanged</span>`}</td>
                </tr>`,
              )}</tbody>
            </table>
            <p class="quiet">VecSieve keeps the last ${keep} searches of each process: ids, ranks and scores, ${texts ? "and the beginnings of texts" : "no texts"}.</p>`
    }`;
}

// Lower values first: the database ranks by distance.
const measureOf = (results) => {
  const [best, worst] = [...results].sort((a, b) => a.rank - b.rank).filter((result) => result.score !== null).map((result) => result.score).reduce((ends, score) => [ends[0] ?? score, score], []);
  return best < worst ? "distance" : "score";
};
const resultAt = (search, rank) => [...search.kept, ...search.left_out].find((result) => result.rank === rank);
const idOf = (result) => (result.id === null ? "no id" : String(result.id));
function Result({ result, number, at, badge, kind, note, link, measure }) {
  const body = html`<span class="place">${at}</span>
    <span class="what"><code class="id">${idOf(result)}</code>${result.text && html`<span class="text">${result.text}</span>`}${note && html`<span class="note">${note}</span>`}</span>
    <span class="side"><span class="score" title=${measure}>${measure === "distance" ? "distance " : ""}${fixed(result.score, 3)}</span>${badge && html`<span class=${`badge ${kind}`}>${badge}</span>`}</span>`;
  return link
    ? html`<li data-entry><a class=${`result ${kind}`} href=${`#/pair/${number}/${result.rank}`}>${body}</a></li>`
    : html`<li><div class=${`result ${kind}`}>${body}</div></li>`;
}

function fateOf(result) {
  if (result.copy) return { badge: "left", kind: "gone", note: result.copy.why, link: true };
  if (result.reason === "capped") return { badge: "capped", kind: "gone", note: "its document or source has reached the limit of results" };
  if (result.reason === "shown_before") return { badge: "shown before", kind: "gone", note: "shown in an earlier list or turn" };
  if (result.reason === "over_budget") return { badge: "over budget", kind: "gone", note: "better results have used up the text budget" };
  return { badge: "not chosen", kind: "gone" };
}

const ruleOf = (number, name) => (name ? `rule ${name}` : `rule ${number + 1}`);

export function Search({ number }) {
  const [search, error] = usePolled(`/api/searches/${number}`, 0);
  if (!search) return html`<p><a href="#/live">← Searches</a></p><${Waiting} error=${error} />`;
  const kept = new Map(search.kept.map((result, place) => [result.rank, place]));
  const first = search.offset;
  const page = [...search.kept, ...search.left_out]
    .filter((result) => result.rank >= first && result.rank < first + search.top_k)
    .sort((a, b) => a.rank - b.rank);
  const others = search.left_out.filter((result) => result.rank < first || result.rank >= first + search.top_k);
  const arrivals = search.kept.filter((result) => result.rank < first || result.rank >= first + search.top_k).length;
  const isShadow = search.outcome === "shadow";
  const measure = measureOf([...search.kept, ...search.left_out]);
  return html`<p><a href="#/live">← Searches</a></p>
    <div class="head"><div>
      <h1>Before and after</h1>
      <p class="quiet">${named(search.operation)} in <a class="strong" href=${`#/settings/${encodeURIComponent(search.collection)}`}>${search.collection}</a>
        ${" at "}${clock(search.at)}, policy: ${search.rule_number === null ? "default" : ruleOf(search.rule_number, search.rule_name)}</p>
    </div></div>
    ${isShadow && html`<p class="notice">Shadow mode: the client got the original page of the database. The right side shows the page in mode <code>on</code>.</p>`}
    ${search.restrained && html`<p class="notice">Not deduplicated by vectors: they would have merged most of this pool, although its scores differ.</p>`}
    ${search.short > 0 && html`<p class="notice">${search.short} fewer results than requested: only copies of these results were left to fill the page (<code>policy.short</code>).</p>`}
    <div class="tiles">
      <${Tile} value=${page.length - page.filter((result) => kept.has(result.rank)).length} of=${`of ${page.length}`} label="left the page" />
      <${Tile} value=${arrivals} label="moved up from lower ranks" />
      <${Tile} value=${search.candidates} of=${`→ ${search.clusters}`} label="candidates, distinct" />
      <${Tile} value=${ms(search.added_ms)} label="added" />
    </div>
    <div class="columns">
      <section><h2>Before <span class="quiet">the original page of the database</span></h2><ol class="results">
        ${page.map((result) => {
          const fate = kept.has(result.rank) ? { badge: result.copy ? "fills the page" : "", kind: result.copy ? "filled" : "" } : fateOf(result);
          return html`<${Result} key=${result.rank} result=${result} measure=${measure} number=${number} at=${result.rank + 1} ...${fate} />`;
        })}</ol></section>
      <section><h2>After <span class="quiet">${isShadow ? "the page in mode on" : "what the client got"}</span></h2><ol class="results">
        ${search.kept.map((result) => {
          const isNew = result.rank < first || result.rank >= first + search.top_k;
          const notes = [
            result.collapsed_ids.length ? `stands for ${result.collapsed_ids.length} more` : "",
            result.stays ?? "",
            result.copy ? `${result.copy.why}, but fills the page: there are too few distinct candidates` : "",
          ].filter(Boolean);
          return html`<${Result} key=${result.rank} result=${result} measure=${measure} number=${number} at=${result.rank + 1} note=${notes.join("; ")}
            badge=${isNew ? "moved up" : ""} kind=${result.copy ? "filled" : isNew ? "new" : ""} />`;
        })}</ol></section>
    </div>
    ${
      others.length > 0 &&
      html`<details><summary>${others.length} more candidates, not in the reply</summary><ol class="results">
        ${others.map((result) => html`<${Result} key=${result.rank} result=${result} measure=${measure} number=${number} at=${result.rank + 1} ...${fateOf(result)} />`)}
      </ol></details>`
    }`;
}

function Judge({ pair, file, judged, done }) {
  const [state, setState] = useState({ judged, error: null });
  useEffect(() => setState({ judged, error: null }), [judged, pair.search, pair.rank]);
  if (!file) return html`<p class="quiet">To store verdicts, set <code>explain.judgements</code> to a file.</p>`;
  const judge = (right) => async () => {
    try {
      const answer = await ask("/api/judgements", { pair: { search: pair.search, rank: pair.rank }, right });
      setState({ judged: answer.judged, error: null });
      done?.();
    } catch (error) {
      setState((before) => ({ ...before, error }));
    }
  };
  return html`<div class="judge" role="group" aria-label="Was this drop right?">
    <button data-judge="right" class="right" aria-pressed=${state.judged === true} onClick=${judge(true)}>Right, a repeat</button>
    <button data-judge="wrong" class="wrong" aria-pressed=${state.judged === false} onClick=${judge(false)}>Wrong, not the same</button>
    ${typeof state.judged === "boolean" && html`<span class="quiet" role="status">saved</span>`}
    ${state.error && html`<span class="bad" role="alert">${state.error.message}</span>`}
  </div>`;
}

// What a similarity is a share of.
const SHARES = { reworded: "Certainty", vectors: "Similarity of vectors" };

const Evidence = ({ pair }) => html`<dl class="evidence">
  <div class="why"><dt>Why it left</dt><dd>${pair.why}</dd></div>
  <div><dt>${SHARES[pair.reason] ?? "Of its words, on the page"}</dt><dd class=${pair.similarity !== null && pair.similarity < 0.9 ? "warn" : ""}>${fixed(pair.similarity, 2)}</dd></div>
  ${pair.cut !== null && html`<div><dt>Cut at this rank</dt><dd>${fixed(pair.cut, 3)}</dd></div>`}
</dl>`;

const Sides = ({ pair }) => html`<div class="columns pair">
  ${[["a", "Kept"], ["b", "Removed"]].map(
    ([name, title]) => html`<section class="card"><h3>${title} <span class="quiet">rank ${pair[name].rank + 1}, ${measureOf([pair.a, pair.b])} ${fixed(pair[name].score, 3)}</span></h3>
      <p><code class="id">${idOf(pair[name])}</code></p>
      ${pair[name].text ? html`<p class="whole">${pair[name].text}</p>` : ""}</section>`,
  )}
</div>`;

export function Pair({ number, rank }) {
  const [search, searchError] = usePolled(`/api/searches/${number}`, 0);
  const [doubtful, error] = usePolled("/api/doubtful", 0);
  if (!doubtful || (!search && !searchError)) return html`<${Waiting} error=${error} />`;
  const entry = doubtful.pairs.find((pair) => pair.search === number && pair.rank === rank);
  const removal = search && resultAt(search, rank);
  const pair = removal?.copy ? { ...removal.copy, search: number, rank, collection: search.collection, a: resultAt(search, removal.copy.rank), b: removal } : entry;
  const back = search ? html`<a href=${`#/search/${number}`}>← The whole search</a>` : html`<a href="#/doubtful">← Doubtful drops</a>`;
  if (!pair) return html`<p>${back}</p><${Empty} title="This pair is no longer stored"><p>Newer searches have replaced it.</p></${Empty}>`;
  return html`<p>${back}</p>
    <h1>Was this drop right?</h1><p class="quiet">Two results of one search in <span class="strong">${pair.collection}</span></p>
    <${Sides} pair=${pair} />
    <${Evidence} pair=${pair} />
    ${!pair.a.text && !pair.b.text && html`<p class="quiet">Texts are shown if <code>explain.texts</code> is true and the policy reads a text field.</p>`}
    <${Judge} pair=${pair} file=${doubtful.judgements} judged=${entry?.judged} />`;
}

const PAIRS_AT_ONCE = 20;

export function Doubtful() {
  const [page, error, again] = usePolled("/api/doubtful", 5000);
  const [many, setMany] = useState(PAIRS_AT_ONCE);
  if (!page) return html`<h1>Doubtful drops</h1><${Waiting} error=${error} />`;
  const judged = page.pairs.filter((pair) => typeof pair.judged === "boolean").length;
  return html`<h1>Doubtful drops</h1>
    <p class="quiet">Results removed without a proof: edited copies of long texts, rewordings, near vectors. The largest difference first. What the page says word for word needs no judgement.
      ${page.judgements ? html` Verdicts go to <code title=${page.judgements}>${page.judgements.split("/").pop()}</code>${judged ? ` (${judged} so far)` : ""}.` : ""}</p>
    ${page.pairs.length === 0 && html`<${Empty} title="Nothing to judge"><p>In the stored searches, every removed result is said by the results that stay.</p></${Empty}>`}
    <ul class="pairs">${page.pairs.slice(0, many).map(
      (pair) => html`<li key=${`${pair.search}/${pair.rank}`} data-entry class="card">
        <div class="pairhead"><a class="strong" href=${`#/pair/${pair.search}/${pair.rank}`}>${pair.collection}</a><${Evidence} pair=${pair} /></div>
        <${Sides} pair=${pair} />
        <${Judge} pair=${pair} file=${page.judgements} judged=${pair.judged} done=${again} />
      </li>`,
    )}</ul>
    ${page.pairs.length > many && html`<button onClick=${() => setMany(many + PAIRS_AT_ONCE)}>Show ${Math.min(PAIRS_AT_ONCE, page.pairs.length - many)} more of ${page.pairs.length}</button>`}`;
}

const COLOURS = 6;

function Chart({ rows, seconds }) {
  const place = useRef(null);
  useEffect(() => {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const last = Math.floor(Date.now() / 1000 / seconds) * seconds;
    const first = Math.max(last - 3600, Math.min(last - 600, ...rows.map((row) => row.buckets[0][0] - seconds)));
    const times = [];
    for (let at = first; at <= last; at += seconds) times.push(at);
    const lines = rows.map((row) => {
      const shares = new Map(row.buckets.map(([start, , , results, repeats]) => [start, results ? (100 * repeats) / results : null]));
      return times.map((at) => shares.get(at) ?? null);
    });
    const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui" };
    const top = Math.min(100, 20 * Math.ceil(Math.max(20, ...lines.flat()) / 20));
    const draw = () => {
      place.current.replaceChildren();
      return new uPlot(
        {
          width: place.current.clientWidth,
          height: 240,
          legend: { show: false },
          cursor: { drag: { x: false, y: false } },
          scales: { y: { range: [0, top] } },
          axes: [{ ...axis, values: (_, splits) => splits.map((at) => clock(at).slice(0, 5)), space: 90, incrs: [60, 120, 300, 600], size: 28 }, { ...axis, values: (_, splits) => splits.map((percent) => `${percent} %`), incrs: [5, 10, 20], size: 52 }],
          series: [{}, ...rows.map((row, at) => ({ label: row.collection, stroke: colour(`--c${at}`), width: 2, spanGaps: true, points: { show: true, size: 7, fill: colour(`--c${at}`) }, fill: at || rows.length > 1 ? undefined : `${colour("--c0")}22` }))],
        },
        [times, ...lines],
        place.current,
      );
    };
    let chart = draw();
    const watch = new ResizeObserver(() => {
      if (Math.abs(chart.width - place.current.clientWidth) > 1) {
        chart.destroy();
        chart = draw();
      }
    });
    watch.observe(place.current);
    return () => {
      watch.disconnect();
      chart.destroy();
    };
  }, [rows]);
  return html`<div class="chart" ref=${place} role="img" aria-label="Share of results that were repeats, by collection, over the last hour"></div>`;
}

export function Collections() {
  const [page, error] = usePolled("/api/collections", 5000);
  if (!page) return html`<h1>Collections</h1><${Waiting} error=${error} />`;
  const rows = page.collections;
  if (!rows.length) return html`<h1>Collections</h1><${Empty} title="No search yet"><p>This view shows the last hour of each collection.</p></${Empty}>`;
  return html`<h1>Collections</h1><p class="quiet">Share of the database's results that repeat a better result of the same page, over the last hour.</p>
    <div class="card"><${Chart} rows=${rows.slice(0, COLOURS)} seconds=${page.bucket_seconds} />
      <p class="quiet chartnote">One point for each ${page.bucket_seconds} s with searches${rows.length > COLOURS ? `, for the ${COLOURS} collections with most searches` : ""}.</p></div>
    <table class="rows"><thead><tr><th>Collection</th><th class="n">Searches</th><th class="n wide">Changed</th><th class="n">Repeats</th><th class="wide"></th><th>Text</th><th>Rule</th></tr></thead>
      <tbody>${rows.map(
        (row, at) => html`<tr key=${row.collection} data-entry>
          <td class="name">${at < COLOURS && html`<span class=${`swatch c${at}`}></span>`}<a href=${`#/settings/${encodeURIComponent(row.collection)}`}>${row.collection}</a></td>
          <td class="n">${whole(row.searches)}</td><td class="n wide">${share(row.changed, row.searches)}</td>
          <td class="n"><b>${share(row.repeats, row.results)}</b></td><td class="wide"><${Bar} part=${row.repeats} of=${row.results} kind="bad" /></td>
          <td><${Text} of=${row.texts} /></td>
          <td>${row.rule === null ? html`<span class="quiet">default</span>` : row.rule_name ?? row.rule + 1}</td></tr>`,
      )}</tbody></table>`;
}

function Text({ of }) {
  if (!of || of.standing === "unsettled") return html`<span class="quiet">not known yet</span>`;
  const keys = `Keys of the payloads: ${of.keys.join(", ") || "none"}`;
  if (of.standing === "none") return html`<b title=${keys}>no text found</b> <span class="quiet">only equal vectors are removed; keys seen: ${of.keys.join(", ") || "none"}</span>`;
  return html`<span class="name" title=${keys}>${of.texts.join(", ")}</span>`;
}

function Counts({ title, counts, empty, kind }) {
  const entries = Object.entries(counts);
  const most = Math.max(...entries.map(([, count]) => count), 0);
  return html`<section class="card"><h2>${title}</h2>
    ${entries.length === 0 ? html`<p class="quiet">${empty}</p>` : html`<ul class="counts">${entries.map(
      ([name, count]) => html`<li><span title=${name}>${MEANINGS[name] ?? named(name)}</span><${Bar} part=${count} of=${most} kind=${kind} /><b>${whole(count)}</b></li>`,
    )}</ul>`}</section>`;
}

export function Cost() {
  const [cost, error] = usePolled("/api/cost", 5000);
  if (!cost) return html`<h1>Cost</h1><${Waiting} error=${error} />`;
  const { whole: all = 0, partial = 0, none = 0 } = cost.memory;
  return html`<h1>Cost</h1><p class="quiet">Latency and traffic that VecSieve adds, and the searches that it passes through. Since the start, for all processes together.</p>
    <div class="tiles">
      <${Tile} value=${ms(cost.added_ms.p50)} label="added, median" hint="additional latency for the client" />
      <${Tile} value=${ms(cost.added_ms.p95)} label="added, p95" hint="95 % of searches had less" />
      <${Tile} value=${ms(cost.database_ms.p50)} label="the database, median" />
      <${Tile} value=${bytes(cost.bytes.widened)} label="fetched for pools" />
      <${Tile} value=${bytes(cost.bytes.to_clients)} label="sent to clients" />
      <${Tile} value=${bytes(cost.bytes.from_database)} label="received from the database in total" />
      ${all + partial + none > 0 && html`<${Tile} value=${share(all + partial, all + partial + none)} of=${`of ${whole(all + partial + none)}`} label="searches with vectors from memory" />`}
    </div>
    <div class="columns three">
      <${Counts} title="Searches by outcome" counts=${cost.outcomes} empty="No search yet." />
      <${Counts} title="Passed through, by reason" counts=${cost.bypassed} empty="No search was passed through." kind="plain" />
      <${Counts} title="Original replies after a failure" counts=${cost.failed_open} empty="No failure." kind="bad" />
      <${Counts} title="Results removed, by reason" counts=${cost.collapsed} empty="No result was removed." />
      <${Counts} title="Additional reads by VecSieve" counts=${cost.own_reads} empty="No additional reads." kind="plain" />
    </div>`;
}

function flat(value, path = "") {
  if (value === null || typeof value !== "object") return [[path, value]];
  const entries = Object.entries(value);
  if (!entries.length) return [[path, Array.isArray(value) ? "none" : "nothing"]];
  if (Array.isArray(value) && value.every((member) => typeof member !== "object")) return [[path, value.join(", ")]];
  return entries.flatMap(([name, member]) => flat(member, Array.isArray(value) ? `${path}[${name}]` : path ? `${path}.${name}` : name));
}

const Tree = ({ value, filter, keep = () => true }) => {
  const rows = flat(value).filter((row) => row[0].includes(filter) && keep(row));
  return html`<table class="rows settings"><tbody>${rows.map(
    ([path, value]) => html`<tr key=${path}><th scope="row"><code>${path}</code></th><td>${value === null ? html`<span class="quiet">none</span>` : String(value)}</td></tr>`,
  )}</tbody></table>${rows.length === 0 && html`<p class="quiet">No such setting.</p>`}`;
};

export function Settings({ collection }) {
  const [page, error] = usePolled(`/api/settings${collection ? `?collection=${encodeURIComponent(collection)}` : ""}`, 0);
  const [filter, setFilter] = useState("");
  const [isChanged, setChanged] = useState(false);
  const look = (event) => {
    event.preventDefault();
    location.hash = `#/settings/${encodeURIComponent(event.target.elements.collection.value)}`;
  };
  if (!page) return html`<h1>Settings</h1><${Waiting} error=${error} />`;
  const rule = page.rule === null || page.rule === undefined ? null : page.settings.rules[page.rule];
  const defaults = new Map(flat(page.defaults).map(([path, value]) => [path, String(value)]));
  const differs = ([path, value]) => defaults.get(path) !== String(value);
  const changes = flat(page.settings).filter(differs).length;
  return html`<h1>Settings</h1><p class="quiet">The settings in force. Secrets are masked.</p>
    <form class="tools" onSubmit=${look}>
      <label>Which rule applies to a collection? <input name="collection" key=${collection} defaultValue=${collection} placeholder="its name" /></label><button>Look</button>
    </form>
    ${
      collection &&
      html`<section class="card"><h2>${collection}</h2>
        <p>${rule ? html`Rule ${page.rule_name ?? page.rule + 1} applies: it matches <code>${rule.collection}</code>${rule.preset ? html`, preset <code>${rule.preset}</code>` : ""}.` : "No rule matches: the default policy applies."}</p>
        <details open><summary>Its policy</summary><${Tree} value=${page.policy} filter="" /></details></section>`
    }
    <div class="tools"><label>Filter <input value=${filter} onInput=${(event) => setFilter(event.target.value)} placeholder="policy.text" /></label>
      <label class="check"><input type="checkbox" checked=${isChanged} onChange=${(event) => setChanged(event.target.checked)} />Only the ${changes} settings that differ from the defaults</label></div>
    <${Tree} value=${page.settings} filter=${filter} keep=${isChanged ? differs : () => true} />`;
}
