// The frame of the inspector: polling, choice of the view, keys. The views are in views.js.
import { html, render, useEffect, useState } from "./vendor/htm-preact.js";
import { POLL_MS, ask, usePolled } from "./requests.js";
import { Collections, Cost, Doubtful, Empty, Live, Pair, Search, Settings } from "./views.js";
import { WhatIf } from "./whatif.js";

const MOST_SEARCHES = 300;
const VIEWS = [
  ["live", "Searches"],
  ["doubtful", "Doubtful"],
  ["collections", "Collections"],
  ["cost", "Cost"],
  ["settings", "Settings"],
  ["whatif", "What if"],
];

// The searches loaded so far, newest first. Each poll asks only for newer ones.
function useSearches(isPaused) {
  const [state, setState] = useState({ searches: [], keep: null, error: null });
  useEffect(() => {
    if (isPaused) return undefined;
    let live = true;
    let next = state.next ?? 0;
    const read = async () => {
      if (document.hidden) return;
      try {
        const page = await ask(`/api/searches?since=${next}`);
        if (!live) return;
        next = page.next;
        setState((before) => {
          const numbers = new Set(before.searches.map((search) => search.number));
          const newer = page.searches.filter((search) => !numbers.has(search.number));
          const searches = [...newer, ...before.searches].sort((a, b) => b.number - a.number).slice(0, MOST_SEARCHES);
          return { searches, keep: page.keep, texts: page.texts, next, error: null };
        });
      } catch (error) {
        if (live) setState((before) => ({ ...before, error }));
      }
    };
    read();
    const timer = setInterval(read, POLL_MS);
    return () => {
      live = false;
      clearInterval(timer);
    };
  }, [isPaused]);
  return state;
}

// A part of an address that anybody may have written: what is no code stays as it is.
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function useRoute() {
  const read = () => location.hash.replace(/^#\/?/, "").split("/").map(decoded);
  const [route, setRoute] = useState(read);
  useEffect(() => {
    const changed = () => {
      setRoute(read());
      scrollTo(0, 0);
    };
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return route;
}

// 1 to 6: views. j, k: next and previous entry. r, w: judge the focused entry as right or wrong.
function pressKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  const view = VIEWS[Number(event.key) - 1];
  if (view) location.hash = `#/${view[0]}`;
  if (event.key === "j" || event.key === "k") {
    const entries = [...document.querySelectorAll("[data-entry]")];
    const at = entries.findIndex((entry) => entry.contains(document.activeElement));
    const to = entries[at < 0 ? 0 : Math.min(entries.length - 1, Math.max(0, at + (event.key === "j" ? 1 : -1)))];
    (to?.matches("a, button") ? to : to?.querySelector("a, button"))?.focus();
  }
  if (event.key === "r" || event.key === "w") {
    const entry = document.activeElement.closest("[data-entry]") ?? document.querySelector("main [data-judge]")?.parentElement;
    entry?.querySelector(`[data-judge="${event.key === "r" ? "right" : "wrong"}"]`)?.click();
  }
}

function Token({ refused }) {
  const keep = (event) => {
    event.preventDefault();
    sessionStorage.setItem("token", event.target.elements.token.value.trim());
    location.reload();
  };
  return html`<form class="card token" onSubmit=${keep}>
    <h1>A token is needed</h1>
    <p>${sessionStorage.getItem("token") ? "This token was refused." : "This inspector is protected."} The token is in the file named by
      <code> explain.token_file</code>. It is stored only in this tab.</p>
    <label>Token <input name="token" type="password" autocomplete="off" autofocus required /></label>
    <button class="primary">Open</button>
    <p class="quiet">${refused.message}</p>
  </form>`;
}

const localTime = (timestamp) => new Date(timestamp).toLocaleString("en-GB");

function State({ status, error }) {
  if (error) return html`<span class="state bad">no answer</span>`;
  if (!status) return html`<span class="state">…</span>`;
  const [state, why] = status.canary.split(": ");
  const since = status.canary_stopped_since;
  const canary = since ? `${state} since ${localTime(since)}` : state;
  const isGood = status.state === "ready" && status.breaker === "closed" && !since;
  return html`<span class=${`state ${isGood ? "good" : "bad"}`} title=${`version ${status.version}, settings ${status.settings_hash}`}>
    ${status.state}${status.breaker === "closed" ? "" : `, breaker ${status.breaker}`}
  </span><span class="facts">mode ${status.mode}${canary === "none" ? "" : `, canary ${canary}`}<span class="wide">${why && `: ${why}`} · ${status.backend} at ${status.upstream}</span></span>`;
}

function App() {
  const route = useRoute();
  const [isPaused, setPaused] = useState(false);
  const searches = useSearches(isPaused);
  const [status, statusError] = usePolled("/status", 5000);
  useEffect(() => {
    addEventListener("keydown", pressKey);
    return () => removeEventListener("keydown", pressKey);
  }, []);
  const [view = "live", ...rest] = route[0] ? route : ["live"];
  const tab = { search: "live", pair: "doubtful" }[view] ?? view;
  useEffect(() => document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" }), [tab]);
  useEffect(() => {
    document.title = `${VIEWS.find(([name]) => name === tab)?.[1] ?? "Inspector"} · VecSieve`;
  }, [tab]);
  if (searches.error?.status === 401) return html`<${Token} refused=${searches.error} />`;
  return html`<a class="skip" href="#main">Skip to the content</a>
    <header>
      <a class="brand" href="#/live"><img src="/static/icon.svg" alt="" width="24" height="24" />VecSieve</a>
      <nav aria-label="Views">
        ${VIEWS.map(([name, title]) => html`<a href=${`#/${name}`} aria-current=${tab === name ? "page" : null}>${title}</a>`)}
      </nav>
      <div class="status"><${State} status=${status} error=${statusError} /></div>
    </header>
    ${searches.error && html`<p class="alarm" role="alert">VecSieve does not answer (${searches.error.message}). Trying again.</p>`}
    ${status?.needs_restart.length > 0 && html`<p class="alarm" role="status">These settings changed and need a restart: ${status.needs_restart.join(", ")}.</p>`}
    ${
      status?.failed_reload &&
      html`<div class="alarm" role="alert">Since ${localTime(status.failed_reload.since)} new settings are refused. The old ones stay in force.
        <ul>${status.failed_reload.problems.map((problem) => html`<li>${problem}</li>`)}</ul></div>`
    }
    <main id="main" tabindex="-1">
      ${view === "live" && html`<${Live} verdict=${status?.verdict} ...${searches} isPaused=${isPaused} pause=${() => setPaused(!isPaused)} />`}
      ${view === "search" && html`<${Search} number=${Number(rest[0])} />`}
      ${view === "pair" && html`<${Pair} number=${Number(rest[0])} rank=${Number(rest[1])} />`}
      ${view === "doubtful" && html`<${Doubtful} />`}
      ${view === "collections" && html`<${Collections} />`}
      ${view === "cost" && html`<${Cost} />`}
      ${view === "whatif" && html`<${WhatIf} />`}
      ${view === "settings" && html`<${Settings} collection=${rest[0] ?? ""} />`}
      ${!VIEWS.some(([name]) => name === tab) && html`<${Empty} title="No such view"><p>The views are above. <a href="#/live">Searches</a> is the first.</p></${Empty}>`}
    </main>
    <footer>Keys: <kbd>1</kbd>–<kbd>6</kbd> views, <kbd>j</kbd> <kbd>k</kbd> next and previous, <kbd>r</kbd> <kbd>w</kbd> right and wrong.
      The same data is JSON under <a href="/api/searches">/api/</a>.</footer>`;
}

document.body.replaceChildren();
render(html`<${App} />`, document.body);
