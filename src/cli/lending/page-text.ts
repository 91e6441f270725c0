// The markup, style and script of the owner's page. It draws what `/state` says once a second, as text and never as markup.

export function pageText(token: string, nonce: string): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>This machine is lent</title>
<style nonce="${nonce}">
  :root { color-scheme: light dark; --ground: #fff; --ink: #1a1d21; --soft: #5a626b; --line: #d9dde2; --good: #126b34; --warn: #8a4b00; }
  @media (prefers-color-scheme: dark) { :root { --ground: #14171a; --ink: #e8eaed; --soft: #a3abb4; --line: #343a41; --good: #6fd195; --warn: #f0b35a; } }
  body { margin: 0 auto; padding: 2rem 1rem; max-width: 40rem; background: var(--ground); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
  h1 { font-size: 1.4rem; overflow-wrap: anywhere; }
  dl { display: grid; grid-template-columns: 5rem 1fr; gap: .4rem 1rem; }
  dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
  .good { color: var(--good); } .warn { color: var(--warn); }
  button { font: inherit; padding: .5rem 1rem; margin: 0 .5rem .5rem 0; border: 1px solid var(--line); border-radius: .4rem; background: transparent; color: inherit; cursor: pointer; }
  button:focus-visible { outline: 2px solid currentColor; }
  pre { color: var(--soft); white-space: pre-wrap; overflow-wrap: anywhere; border-top: 1px solid var(--line); padding-top: 1rem; }
</style>
</head>
<body>
<main>
<h1 id="title">This machine is lent</h1>
<dl>
  <dt>lends</dt><dd id="lends"></dd>
  <dt>now</dt><dd id="now" role="status"></dd>
  <dt>gave</dt><dd id="gave"></dd>
  <dt>peers</dt><dd id="peers"></dd>
  <dt>trouble</dt><dd id="trouble"></dd>
</dl>
<div>
  <button type="button" id="pause">Pause</button>
  <button type="button" id="finish">Finish, then leave</button>
  <button type="button" id="leave">Leave now</button>
</div>
<pre id="log" aria-label="What happened"></pre>
</main>
<script nonce="${nonce}">
  const at = (id) => document.getElementById(id);
  const headers = { "x-token": "${token}" };
  let wish = "lend";
  function show(state) {
    if (!state) return;
    wish = state.wish;
    document.title = state.name + ": " + state.now;
    at("title").textContent = state.name + " is lent to " + state.network;
    at("lends").textContent = state.lends.join("; ");
    at("now").textContent = [state.now, ...state.work].join("; ");
    at("now").className = state.tone;
    at("gave").textContent = state.gave.join("; ");
    at("peers").textContent = [state.reach, state.update].filter(Boolean).join(" ");
    at("trouble").textContent = state.problems.join("; ") || "none";
    at("log").textContent = state.log.join("\\n");
    at("pause").textContent = wish === "pause" ? "Lend it again" : "Pause";
    at("finish").textContent = wish === "finish" ? "Stay after all" : "Finish, then leave";
  }
  async function ask(path, options) {
    try {
      const response = await fetch(path, { headers, ...options });
      if (!response.ok) throw new Error();
      show(await response.json());
    } catch {
      at("now").textContent = "dcnr join does not run here any more";
      at("now").className = "warn";
    }
  }
  const wished = (next) => ask("/wish", { method: "POST", body: next });
  at("pause").onclick = () => wished(wish === "pause" ? "lend" : "pause");
  at("finish").onclick = () => wished(wish === "finish" ? "lend" : "finish");
  at("leave").onclick = () => wished("leave");
  void ask("/state");
  setInterval(() => void ask("/state"), 1000);
</script>
</body>
</html>
`;
}
