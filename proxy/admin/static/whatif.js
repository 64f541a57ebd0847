// What if: applies another policy to the recent pools.
import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { ask, usePolled } from "./requests.js";
import { Bar, bytes, Empty, ms, share, Tile, Waiting, whole } from "./views.js";

const PRESETS = ["default", "exact", "meaning", "vectors", "classical"];
// How near vectors must be; they decide only where a text is missing, or where the preset reads no texts.
const CUTS = {
  threshold: { title: "Fixed distance", most: 2, step: 0.01, first: 0.15, hint: "largest cosine distance of a repeat" },
  relative: { title: "Relative distance", most: 1, step: 0.01, first: 0.2, hint: "largest distance of a repeat, as a share of the pool's typical distance" },
  certainty: { title: "Certainty", most: 1, step: 0.01, first: 0.85, hint: "smallest probability of a repeat by the calibrated rule, at every rank" },
};
const CHOICES = {
  linkage: { title: "Linkage", values: ["leader", "single", "complete", "average"] },
  representative: { title: "Representative", values: ["rank", "centroid", "hybrid", "query_closest", "longest", "auto"] },
  short: { title: "Short pages", values: ["grow_then_fill", "grow_then_repeat", "fill", "allow"] },
};
const CAPS = [1, 2, 3, 5];
const FEW_POOLS = 200; // up to this number, all presets are applied without a click

// Debounces a value, so that a slider does not send a request at each step.
function useSettled(value, waitMs = 250) {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), waitMs);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
}

function Slider({ label, value, most, step, set, hint }) {
  return html`<label class="slider" title=${hint}>${label} <output>${value.toFixed(2)}</output>
    <input type="range" min="0" max=${most} step=${step} value=${value} aria-label=${label} onInput=${(event) => set(Number(event.target.value))} />
  </label>`;
}

const Difference = ({ label, now, then, hint }) =>
  html`<${Tile} value=${whole(then)} of=${now === then ? "as now" : `now ${whole(now)}`} label=${label} hint=${hint} />`;

const Choice = ({ label, values, value, set }) => html`<label>${label} <select value=${value} aria-label=${label} onChange=${(event) => set(event.target.value)}>
  <option value="">as in the policy</option>${values.map((option) => html`<option value=${option}>${option.replaceAll("_", " ")}</option>`)}</select></label>`;

function Cap({ label, known, value, set }) {
  return html`<label title=${known ? "" : "not known in any pool: set the field in policy.metadata, and use a cap or a span so that VecSieve reads it"}>${label}
    <select value=${value} disabled=${!known} onChange=${(event) => set(event.target.value)}>
      <option value="">${known ? "any number" : "not known"}</option>${CAPS.map((most) => html`<option value=${most}>at most ${most}</option>`)}
    </select></label>`;
}

// Applies the presets one after another.
function Presets({ total, choose }) {
  const [rows, setRows] = useState({});
  const [isApplied, setApplied] = useState(total.searches <= FEW_POOLS);
  useEffect(() => {
    let live = isApplied;
    const read = async () => {
      for (const name of PRESETS) {
        if (!live) return;
        const answer = await ask(`/api/whatif?preset=${name}`).catch(() => null);
        if (live && answer) setRows((before) => ({ ...before, [name]: answer.total }));
      }
    };
    read();
    return () => {
      live = false;
    };
  }, [isApplied]);
  const row = (name, dropped, changed, differ, key) => html`<tr key=${key} class=${key === "" ? "now" : ""} data-entry>
    <td class="name">${name}</td><td class="n">${dropped === undefined ? "…" : whole(dropped)}</td>
    <td class="wide"><${Bar} part=${dropped ?? 0} of=${most} kind="plain" /></td>
    <td class="n">${changed === undefined ? "…" : share(changed, total.searches)}</td><td class="n wide">${differ === undefined ? "…" : share(differ, total.searches)}</td></tr>`;
  const most = Math.max(total.dropped_now, ...Object.values(rows).map((row) => row.dropped_then));
  return html`<h2>All presets</h2>
    ${
      !isApplied
        ? html`<p><button onClick=${() => setApplied(true)}>Apply all presets to ${whole(total.searches)} pools</button></p>`
        : html`<table class="rows"><thead><tr><th>Policy</th><th class="n">Removed</th><th class="wide"></th><th class="n">Pages changed</th><th class="n wide">Differ from now</th></tr></thead><tbody>
            ${row(html`<b>as now</b>`, total.dropped_now, total.changed_now, 0, "")}
            ${PRESETS.map((name) => row(html`<button onClick=${() => choose(name)}>${name}</button>`, rows[name]?.dropped_then, rows[name]?.changed_then, rows[name]?.differ, name))}
          </tbody></table>`
    }`;
}

export function WhatIf() {
  const [preset, setPreset] = useState("meaning");
  const [cut, setCut] = useState("");
  const [values, setValues] = useState(Object.fromEntries(Object.entries(CUTS).map(([name, rule]) => [name, rule.first])));
  const [chosen, setChosen] = useState(Object.fromEntries(Object.keys(CHOICES).map((name) => [name, ""])));
  const [hasMmr, setMmr] = useState(false);
  const [lambda, setLambda] = useState(0.7);
  const [caps, setCaps] = useState({ per_document: "", per_source: "" });
  const members = { preset, ...(cut ? { [cut]: values[cut] } : {}), ...chosen, ...(hasMmr ? { mmr_lambda: lambda } : {}), ...caps };
  const query = useSettled(Object.entries(members).filter(([, value]) => value !== "").map((pair) => pair.join("=")).join("&"));
  const [answer, error] = usePolled(`/api/whatif?${query}`, 0);
  const last = useRef(null);
  last.current = answer ?? last.current;
  const result = error ? null : last.current; // shows the last result until the next arrives, so that the layout does not jump
  const rule = CUTS[cut];
  const total = result?.total;
  return html`<h1>What if</h1>
    <p class="quiet">Apply another policy to the recent pools. Clients are not affected. Every change selects from their candidates again.</p>
    <form class="card whatif" onSubmit=${(event) => event.preventDefault()}>
      <${Choice} label="Preset" values=${PRESETS} value=${preset} set=${setPreset} />
      <label>Cut of vectors <select value=${cut} aria-label="Cut of vectors" onChange=${(event) => setCut(event.target.value)}>
        <option value="">as in the policy</option>${Object.entries(CUTS).map(([name, rule]) => html`<option value=${name}>${rule.title}</option>`)}</select></label>
      ${
        rule &&
        html`<${Slider} label=${rule.title} value=${values[cut]} most=${rule.most} step=${rule.step} hint=${rule.hint}
          set=${(value) => setValues({ ...values, [cut]: value })} />`
      }
      ${Object.entries(CHOICES).map(([name, choice]) => html`<${Choice} key=${name} label=${choice.title} values=${choice.values} value=${chosen[name]} set=${(value) => setChosen({ ...chosen, [name]: value })} />`)}
      <${Cap} label="Results of one document" known=${total?.with_documents > 0} value=${caps.per_document} set=${(most) => setCaps({ ...caps, per_document: most })} />
      ${(total?.with_sources > 0 || caps.per_source) && html`<${Cap} label="Results of one source" known value=${caps.per_source} set=${(most) => setCaps({ ...caps, per_source: most })} />`}
      <label class="check"><input type="checkbox" checked=${hasMmr} onChange=${(event) => setMmr(event.target.checked)} />with MMR</label>
      ${hasMmr && html`<${Slider} label="Lambda" value=${lambda} most=${1} step=${0.05} set=${setLambda} hint="1 is only relevance" />`}
    </form>
    ${
      !result
        ? html`<${Waiting} error=${error} />`
        : total.searches === 0
          ? html`<${Empty} title="No pool yet"><p>VecSieve stores the pools of searches if <code>explain.keep</code> is not 0.</p></${Empty}>`
          : html`<div class="tiles">
                <${Tile} value=${whole(total.searches)} label="recent pools" hint=${`${bytes(result.bytes)}, judged in ${ms(result.took_ms)}`} />
                <${Tile} value=${share(total.differ, total.searches)} label="would differ" />
                <${Difference} label="pages changed" now=${total.changed_now} then=${total.changed_then} hint="compared with the database's page" />
                <${Difference} label="results removed" now=${total.dropped_now} then=${total.dropped_then} hint="from the database's pages" />
                <${Tile} value=${whole(total.reworded_then)} label="of these in other words" hint="beyond the proof: judge them, no text proves that they say the same" />
                <${Difference} label="filled with repeats" now=${total.filled_now} then=${total.filled_then} hint="because there are too few distinct results" />
              </div>
              <table class="rows"><thead><tr><th>Collection</th><th class="n">Pools</th><th class="n">Would differ</th><th class="n">Removed</th></tr></thead>
                <tbody>${result.collections.map(
                  (row) => html`<tr key=${row.collection}><td class="name">${row.collection}</td><td class="n">${whole(row.searches)}</td>
                    <td class="n">${whole(row.differ)}</td><td class="n">${whole(row.dropped_then)}<span class="quiet"> now ${whole(row.dropped_now)}</span></td></tr>`,
                )}</tbody></table>
              ${total.differ === 0 && html`<p class="notice plain">No page would change. Choose another preset.${cut && total.with_texts === total.searches ? " Vectors decide only where a text is missing, or where the preset reads no texts." : ""}</p>`}
              ${total.with_vectors < total.searches && html`<p class="notice plain">${whole(total.searches - total.with_vectors)} pools have no vectors, because texts decide them: presets that read vectors change nothing there.</p>`}
              ${
                result.examples.length > 0 &&
                html`<h2>Where it differs most</h2><table class="rows"><thead><tr><th>Search</th><th>Removed ranks</th><th>Added ranks</th><th class="wide">Why removed</th></tr></thead>
                  <tbody>${result.examples.map(
                    (example) => html`<tr data-entry><td class="name"><a href=${`#/search/${example.number}`}>${example.collection}</a></td>
                      <td>${example.gone.map((rank) => rank + 1).join(", ") || "–"}</td><td>${example.back.map((rank) => rank + 1).join(", ") || "–"}</td>
                      <td class="wide">${example.why.filter(Boolean).slice(0, 3).join("; ") || "–"}</td></tr>`,
                  )}</tbody></table>`
              }
              <details><summary>As settings</summary><pre>${result.yaml}</pre>
                <button onClick=${() => navigator.clipboard?.writeText(result.yaml)}>Copy</button></details>
              <${Presets} total=${total} choose=${(name) => {
                setPreset(name);
                setCut("");
                scrollTo({ top: 0, behavior: "smooth" });
              }} />`
    }`;
}
