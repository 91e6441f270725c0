// Homes for tests: each a router with address translation and a machine behind it, all of them on one "internet", made of
// network namespaces. The process that uses this is the internet, in a namespace of its own (inside.ts).

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { readlinkSync } from "node:fs";
import { join } from "node:path";
import { outlookOf } from "../../src/core/errors.ts";

export type Router =
  /** Shows one port for all that a machine calls from one of its own. */
  | "cone"
  /** Shows another port for every connection. */
  | "symmetric"
  /** A cone that lets nothing out but to port 443. */
  | "443 only";

export interface Machine {
  readonly name: string;
  /** Runs `dcnr` there. */
  start(...words: string[]): ChildProcess;
  /** Runs a program of Node's there; what it says can be read. */
  startProgram(...words: string[]): ChildProcess;
  /** Cuts it off from everybody, without telling anybody. */
  pullCable(): void;
}

const dcnr = join(import.meta.dirname, "..", "..", "bin", "dcnr.js");
export const internetHost = "203.0.113.1";

export class Houses {
  readonly #processes: ChildProcess[] = [];
  #count = 0;

  constructor() {
    ip("link", "set", "lo", "up");
    ip("link", "add", "br0", "type", "bridge");
    ip("address", "add", `${internetHost}/24`, "dev", "br0");
    ip("link", "set", "br0", "up");
  }

  /** On the internet itself, where everybody reaches it. */
  async public(name: string, host: string): Promise<Machine> {
    const pid = await this.#namespace();
    const cable = this.#plug(pid, "eth0", host);
    return this.#machine(name, pid, cable);
  }

  async home(name: string, router: Router): Promise<Machine> {
    const [routerPid, machinePid] = [await this.#namespace(), await this.#namespace()];
    const cable = this.#plug(routerPid, "wan", `203.0.113.${20 + this.#count}`);
    within(routerPid, "ip", "link", "add", "lan", "type", "veth", "peer", "name", "eth0", "netns", String(machinePid));
    for (const [pid, name, address] of [
      [routerPid, "lan", "192.168.1.1"],
      [machinePid, "eth0", "192.168.1.2"],
    ] as const) {
      within(pid, "ip", "address", "add", `${address}/24`, "dev", name);
      within(pid, "ip", "link", "set", name, "up");
    }
    within(machinePid, "ip", "route", "add", "default", "via", "192.168.1.1");
    within(routerPid, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward");
    within(routerPid, "nft", rulesOf(router));
    return this.#machine(name, machinePid, cable);
  }

  /** A process of the internet's own machine. */
  start(...words: string[]): ChildProcess {
    return this.#spawn(process.execPath, [dcnr, ...words, "--log-level", "warn"]);
  }

  startProgram(...words: string[]): ChildProcess {
    return this.#spawn(process.execPath, words, "pipe");
  }

  leave(): void {
    for (const child of this.#processes) child.kill("SIGKILL");
  }

  async #namespace(): Promise<number> {
    const holder = this.#spawn("unshare", ["--net", "sleep", "3000"]);
    const pid = holder.pid as number;
    const own = readlinkSync("/proc/self/ns/net");
    await until("the namespace is there", () => readlinkSync(`/proc/${pid}/ns/net`) !== own);
    within(pid, "ip", "link", "set", "lo", "up");
    return pid;
  }

  #plug(pid: number, name: string, host: string): string {
    const cable = `v${++this.#count}`;
    ip("link", "add", cable, "type", "veth", "peer", "name", name, "netns", String(pid));
    ip("link", "set", cable, "master", "br0", "up");
    within(pid, "ip", "address", "add", `${host}/24`, "dev", name);
    within(pid, "ip", "link", "set", name, "up");
    return cable;
  }

  #machine(name: string, pid: number, cable: string): Machine {
    return {
      name,
      start: (...words) =>
        this.#spawn("nsenter", [
          ...["--target", String(pid), "--net", process.execPath, dcnr, ...words],
          ...["--log-level", "warn"],
        ]),
      startProgram: (...words) =>
        this.#spawn("nsenter", ["--target", String(pid), "--net", process.execPath, ...words], "pipe"),
      pullCable: () => ip("link", "set", cable, "down"),
    };
  }

  #spawn(program: string, words: readonly string[], said: "ignore" | "pipe" = "ignore"): ChildProcess {
    const child = spawn(program, words, { stdio: ["ignore", said, "inherit"] });
    this.#processes.push(child);
    return child;
  }
}

const outward = `
    add rule ip home forward iifname "lan" meta l4proto tcp tcp dport != 443 drop;
    add rule ip home forward iifname "lan" meta l4proto udp drop;`;

/** Address translation, and nothing in that was not asked for. */
function rulesOf(router: Router): string {
  return `
    add table ip home;
    add chain ip home post { type nat hook postrouting priority 100; };
    add rule ip home post oifname "wan" masquerade ${router === "symmetric" ? "fully-random" : ""};
    add chain ip home input { type filter hook input priority 0; };
    add rule ip home input iifname "wan" ct state established,related accept;
    add rule ip home input iifname "wan" drop;
    add chain ip home forward { type filter hook forward priority 0; };
    add rule ip home forward iifname "wan" ct state established,related accept;
    add rule ip home forward iifname "wan" drop;
${router === "443 only" ? outward : ""}
  `;
}

function ip(...words: string[]): void {
  execFileSync("ip", words, { stdio: ["ignore", "ignore", "inherit"] });
}

function within(pid: number, ...words: string[]): void {
  execFileSync("nsenter", ["--target", String(pid), "--net", ...words], { stdio: ["ignore", "ignore", "inherit"] });
}

export async function until(what: string, holds: () => Promise<boolean> | boolean): Promise<void> {
  for (let tries = 0; !(await holds()); tries++) {
    if (tries > 1_500) throw new Error(`waited in vain until ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

/** On a busy machine an orchestrator may not answer in time: what can be repeated is. */
export async function answered<Result>(act: () => Promise<Result>): Promise<Result> {
  for (let tries = 0; ; tries++)
    try {
      return await act();
    } catch (error) {
      if (tries >= 20 || outlookOf(error) === "final") throw error;
    }
}
