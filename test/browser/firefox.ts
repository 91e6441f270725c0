// Firefox of this machine, driven by WebDriver BiDi over a WebSocket: what a test of pages needs of it and no more. It has a
// profile of its own, which goes with it.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findProgram } from "./browser.ts";

const startTimeoutMs = 60_000;
const pollMs = 200;

/** Nothing is asked of anybody outside. */
const preferences: Readonly<Record<string, unknown>> = {
  "app.update.enabled": false,
  "browser.shell.checkDefaultBrowser": false,
  "browser.safebrowsing.downloads.enabled": false,
  "datareporting.policy.dataSubmissionEnabled": false,
  "network.captive-portal-service.enabled": false,
  "network.connectivity-service.enabled": false,
  "toolkit.telemetry.reportingpolicy.firstRun": false,
};

export function firefoxHere(): string | undefined {
  return findProgram(["firefox", "firefox-esr"]);
}

/** How a test takes a browser that happens to be here: what it finds is told, and counts with DCNR_BROWSERS=all. */
export function countedOnRequest(program: string | undefined): { readonly skip?: string; readonly todo?: string } {
  if (program === undefined) return { skip: "no Firefox" };
  return process.env["DCNR_BROWSERS"] === "all" ? {} : { todo: "a browser of this machine, told but not counted" };
}

interface Answer {
  readonly id?: number;
  readonly type: string;
  readonly method?: string;
  readonly result?: Record<string, unknown>;
  readonly message?: string;
  readonly params?: { readonly level?: string; readonly text?: string };
}

export class Firefox {
  /** Errors that its pages logged or did not catch. */
  readonly faults: string[] = [];
  readonly #process: ChildProcess;
  readonly #profile: string;
  readonly #socket: WebSocket;
  readonly #waiting = new Map<number, (answer: Answer) => void>();
  #asked = 0;
  #context = "";

  private constructor(process: ChildProcess, profile: string, socket: WebSocket) {
    this.#process = process;
    this.#profile = profile;
    this.#socket = socket;
    socket.addEventListener("message", ({ data }) => this.#heard(JSON.parse(String(data)) as Answer));
  }

  static async launch(program: string): Promise<Firefox> {
    const profile = mkdtempSync(join(tmpdir(), "dcnr-firefox-"));
    const lines = Object.entries(preferences).map(([name, value]) => `user_pref("${name}", ${JSON.stringify(value)});`);
    writeFileSync(join(profile, "user.js"), lines.join("\n"));
    const args = ["--headless", "--no-remote", "--profile", profile, "--remote-debugging-port", "0"];
    const child = spawn(program, args, { stdio: ["ignore", "ignore", "pipe"] });
    const address = await addressOf(child);
    const socket = new WebSocket(`${address}/session`);
    await once(socket, "open");
    const firefox = new Firefox(child, profile, socket);
    await firefox.#ask("session.new", { capabilities: {} });
    await firefox.#ask("session.subscribe", { events: ["log.entryAdded"] });
    const { context } = await firefox.#ask("browsingContext.create", { type: "tab" });
    firefox.#context = String(context);
    return firefox;
  }

  async go(url: string): Promise<void> {
    await this.#ask("browsingContext.navigate", { context: this.#context, url, wait: "complete" });
  }

  /** Another tab comes to the front: the page that is driven is hidden then, as it is for a person who looks at something else. */
  async hide(): Promise<void> {
    const { context } = await this.#ask("browsingContext.create", { type: "tab", background: false });
    await this.#ask("browsingContext.activate", { context });
  }

  async resize(width: number, height: number): Promise<void> {
    await this.#ask("browsingContext.setViewport", { context: this.#context, viewport: { width, height } });
  }

  /** What an expression comes to in the page: a text, a number or a truth. */
  async evaluate(expression: string): Promise<unknown> {
    const target = { context: this.#context };
    const { result } = await this.#ask("script.evaluate", { expression, target, awaitPromise: true });
    return (result as { readonly value?: unknown } | undefined)?.value;
  }

  /** Until an expression is true in the page. */
  async until(expression: string, timeoutMs = 60_000): Promise<void> {
    const untilMs = performance.now() + timeoutMs;
    while ((await this.evaluate(`Boolean(${expression})`)) !== true) {
      if (performance.now() > untilMs) throw new Error(`never true in the page: ${expression}`);
      await new Promise((resolve) => setTimeout(resolve, pollMs));
    }
  }

  async close(): Promise<void> {
    this.#socket.close();
    this.#process.kill("SIGTERM");
    if (this.#process.exitCode === null) await once(this.#process, "exit");
    rmSync(this.#profile, { recursive: true, force: true, maxRetries: 10, retryDelay: 200 });
  }

  async #ask(method: string, params: Record<string, unknown>): Promise<Record<string, unknown>> {
    this.#asked += 1;
    const id = this.#asked;
    const answered = new Promise<Answer>((resolve) => this.#waiting.set(id, resolve));
    this.#socket.send(JSON.stringify({ id, method, params }));
    const answer = await answered;
    if (answer.type === "error") throw new Error(`${method}: ${answer.message}`);
    return answer.result ?? {};
  }

  #heard(answer: Answer): void {
    if (answer.method === "log.entryAdded" && answer.params?.level === "error")
      this.faults.push(answer.params.text ?? "an error without words");
    if (answer.id === undefined) return;
    this.#waiting.get(answer.id)?.(answer);
    this.#waiting.delete(answer.id);
  }
}

/** As it says when it is ready. */
function addressOf(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    let said = "";
    const timer = setTimeout(() => reject(new Error(`Firefox does not start: ${said}`)), startTimeoutMs);
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      said += text;
      const address = /WebDriver BiDi listening on (ws:\/\/\S+)/.exec(said)?.[1];
      if (address === undefined) return;
      clearTimeout(timer);
      resolve(address);
    });
    child.once("exit", () => reject(new Error(`Firefox ended: ${said}`)));
  });
}
