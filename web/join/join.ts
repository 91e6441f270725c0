// The page by which a browser lends its machine: what is lent and to whom, limits, what it does now, and the way out. It computes
// nothing and keeps no time: all that matters runs in workers (src/tab), which go on when the page is hidden.

import { browserFacts, whyNot } from "../../src/tab/capable.ts";
import type { FromTab, TabStatus, ToTab } from "../../src/tab/messages.ts";
import { Contribution, durationText, piecesText } from "./contribution.ts";

const gib = 2 ** 30;
/** Of memory that can be lent; a browser's WebAssembly reaches no further than 4 GiB. */
const memoryChoices = [0.5, 1, 2, 3].map((size) => size * gib);
const diskBytes = gib;

const element = <T extends HTMLElement>(id: string) => document.getElementById(id) as T;
const show = (id: string, text: string) => {
  const shown = element(id);
  // Screen readers read what changes, and only that.
  if (shown.textContent !== text) shown.textContent = text;
};
/** What cannot be changed while the machine is lent. */
const chosenOnce = ["cores", "memory", "name", "gpu", "lend"];
const scripts = document.querySelector<HTMLScriptElement>("script[data-pnode]")?.dataset ?? {};

interface Battery extends EventTarget {
  readonly charging: boolean;
}

let worker: Worker | undefined;
let battery: Battery | undefined;
const contribution = new Contribution();
const loggedMax = 20;
const logged: string[] = [];

show("host", location.host);

const facts = await browserFacts();
const missing = whyNot(facts);
if (missing === undefined) offer();
else {
  show("verdict", missing);
  element("verdict").classList.add("bad");
}

function offer(): void {
  const cores = navigator.hardwareConcurrency || 1;
  const chosen = element<HTMLInputElement>("cores");
  chosen.max = String(cores);
  chosen.value = String(Math.max(1, Math.floor(cores / 2)));
  show("cores-of", `of ${cores}`);
  for (const bytes of memoryChoices) {
    const size = bytes / gib;
    element("memory").append(new Option(`${size} GiB`, String(bytes), size === 1, size === 1));
  }
  element<HTMLInputElement>("name").value = `${browserName()} ${Math.floor(1000 + Math.random() * 9000)}`;
  document.addEventListener("visibilitychange", tellRefusal);
  for (const id of ["on-mains", "when-shown"]) element(id).addEventListener("change", tellRefusal);
  show("verdict", "");
  showTotal();
  void findBattery();
  void findGpu();
  element("limits").hidden = false;
  element("limits").addEventListener("submit", (event) => {
    event.preventDefault();
    lend();
  });
  element("leave").addEventListener("click", () => {
    say({ kind: "leave", reason: "the owner asked it to leave" });
    element<HTMLButtonElement>("leave").disabled = true;
    show("doing", "Hands over what it computes, then leaves.");
  });
  // If there is time, others take over before this page is gone; if not, they notice by themselves.
  addEventListener("pagehide", () => say({ kind: "leave", reason: "the page was closed" }));
}

/** Not waited for: browsers may take long to say, or say nothing. */
async function findBattery(): Promise<void> {
  const { getBattery } = navigator as { getBattery?: () => Promise<Battery> };
  battery = await getBattery?.call(navigator).catch(() => undefined);
  battery?.addEventListener("chargingchange", tellRefusal);
  const choice = element<HTMLInputElement>("on-mains");
  choice.disabled = battery === undefined;
  choice.checked &&= battery !== undefined;
  if (battery === undefined) show("mains-note", "this browser does not tell");
  tellRefusal();
}

/** Asked before anything is lent, so that the owner knows what is offered. */
async function findGpu(): Promise<void> {
  const adapter = await navigator.gpu?.requestAdapter().catch(() => null);
  const choice = element<HTMLInputElement>("gpu");
  choice.disabled = !adapter || worker !== undefined;
  choice.checked &&= Boolean(adapter);
  if (!adapter) show("gpu-note", "this browser gives pages none");
}

function browserName(): string {
  const agent = navigator.userAgent;
  return /Firefox\//.test(agent)
    ? "Firefox"
    : /Edg\//.test(agent)
      ? "Edge"
      : /Chrome\//.test(agent)
        ? "Chrome"
        : "Safari";
}

function lend(): void {
  const script = scripts["pnode"] ?? "";
  worker = new Worker(script, { type: "module", name: "dcnr-pnode" });
  worker.onmessage = ({ data }: MessageEvent<FromTab>) => hear(data);
  worker.onerror = ({ message }) => ended(`It stopped: ${message || "its script cannot be loaded"}. Try again.`);
  const invite = new URLSearchParams(location.hash.slice(1)).get("invite");
  say({
    kind: "start",
    scripts: { engine: scripts["engine"] ?? "", aside: scripts["aside"] ?? "", pulse: scripts["pulse"] ?? "" },
    wishes: {
      name: element<HTMLInputElement>("name").value,
      cores: Number(element<HTMLInputElement>("cores").value),
      memoryBytes: Number(element<HTMLSelectElement>("memory").value),
      diskBytes,
      gpu: element<HTMLInputElement>("gpu").checked,
      ...(invite ? { invite } : {}),
    },
  });
  tellRefusal();
  show("verdict", "");
  element("verdict").classList.remove("bad");
  element<HTMLButtonElement>("leave").disabled = false;
  element("lending").hidden = false;
  for (const id of chosenOnce) element<HTMLInputElement>(id).disabled = true;
}

function say(message: ToTab): void {
  worker?.postMessage(message);
}

/** Why nothing is lent now; empty if it is. */
function refusal(): string {
  if (element<HTMLInputElement>("on-mains").checked && battery?.charging === false) return "it runs on battery";
  if (element<HTMLInputElement>("when-shown").checked && document.hidden) return "the page is hidden";
  return "";
}

function tellRefusal(): void {
  say({ kind: "refusal", why: refusal() });
}

function hear(message: FromTab): void {
  switch (message.kind) {
    case "doing":
      show("doing", `It ${message.what}.`);
      break;
    case "status":
      showStatus(message.status);
      break;
    case "log":
      report(message.line);
      break;
    case "left":
      ended("It has left. Thank you.");
      break;
    case "failed":
      ended(`It cannot start: ${message.why}`, true);
      break;
  }
}

function report(line: string): void {
  logged.push(line);
  if (logged.length > loggedMax) logged.shift();
  list("log", logged);
}

function ended(sentence: string, isBad = false): void {
  worker?.terminate();
  worker = undefined;
  element("lending").hidden = true;
  show("verdict", sentence);
  element("verdict").classList.toggle("bad", isBad);
  for (const id of chosenOnce) element<HTMLInputElement>(id).disabled = false;
  void findGpu();
}

function showStatus(status: TabStatus): void {
  const { attached, vnodes, problems, pieces, computedMs, reached, id, isKept, gpu } = status;
  const paused = refusal();
  const doing = !attached
    ? "Connects to the orchestrator."
    : paused !== ""
      ? `Paused: ${paused}.`
      : vnodes.length === 0
        ? "Ready. It waits for work."
        : `Computes ${vnodes.length === 1 ? "one part" : `${vnodes.length} parts`} of a network.`;
  if (!element<HTMLButtonElement>("leave").disabled) show("doing", doing);
  list("problems", attached ? problems : []);
  list(
    "work",
    vnodes.map(({ vnode, session, step, phase }) => `${vnode} of ${session.slice(0, 8)}: step ${step}, ${phase}`),
  );
  show("reached", reached === "" ? "not yet" : reached);
  show("gpu-lent", gpu);
  show("key", id.slice(0, 10));
  show("kept", isKept ? "kept by this browser" : "for this visit alone: this browser keeps nothing in private windows");
  show("visit", `${piecesText(pieces)}, ${durationText(computedMs)} of computing`);
  contribution.seen({ pieces, computedMs });
  showTotal();
}

function showTotal(): void {
  const { pieces, computedMs } = contribution.total;
  show("total", `${piecesText(pieces)}, ${durationText(computedMs)} of computing`);
}

function list(id: string, lines: readonly string[]): void {
  const shown = Array.from(element(id).children, (child) => child.textContent);
  if (shown.join("\n") === lines.join("\n")) return;
  element(id).replaceChildren(
    ...lines.map((line) => {
      const item = document.createElement("li");
      item.textContent = line;
      return item;
    }),
  );
}
