// Requests of the views to the server: once, or repeatedly while a view is shown.
import { useEffect, useState } from "./vendor/htm-preact.js";

export const POLL_MS = 2000;

class Refused extends Error {
  constructor(status, words) {
    super(words);
    this.status = status;
  }
}

export async function ask(path, body) {
  const headers = {};
  const token = sessionStorage.getItem("token");
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const options = body === undefined ? { headers } : { method: "POST", headers, body: JSON.stringify(body) };
  const reply = await fetch(path, options);
  const answer = await reply.json();
  if (!reply.ok) throw new Refused(reply.status, answer.error);
  return answer;
}

// Polls a path while the view is shown. Returns [answer, error, read now].
export function usePolled(path, everyMs = POLL_MS) {
  const [state, setState] = useState({ path, answer: null, error: null });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    let live = true;
    const read = async () => {
      if (document.hidden) return;
      try {
        const answer = await ask(path);
        if (live) setState({ path, answer, error: null });
      } catch (error) {
        if (live) setState((before) => ({ path, answer: before.path === path ? before.answer : null, error }));
      }
    };
    read();
    const timer = everyMs ? setInterval(read, everyMs) : 0;
    return () => {
      live = false;
      clearInterval(timer);
    };
  }, [path, turn]);
  const current = state.path === path ? state : { answer: null, error: null };
  return [current.answer, current.error, () => setTurn(turn + 1)];
}
