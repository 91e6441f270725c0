// Worlds whose sessions go on while no orchestrator is there, and what must hold in them: what is thrown away can be
// reached again, the store's line is held by the crew, and whoever was taken over stops.

import { fromBinary } from "@bufbuild/protobuf";
import type { Sha256 } from "../src/core/ids.ts";
import { blobsOf, parseManifest } from "../src/data/manifest.ts";
import type { SessionRecord } from "../src/orchestrator/records/sessions.ts";
import { type KeptState, stateName } from "../src/pnode/autonomy/kept-states.ts";
import { timingsDefault } from "../src/pnode/options.ts";
import {
  type CrewNews,
  type KeepRequest,
  KeptCharterSchema,
  type TellRequest,
  type Tenure,
} from "../src/protocol/gen/dcnr/v1/session_peers_pb.ts";
import type { Violations } from "./checks/checkers.ts";
import { isLostToAll } from "./checks/lost-crews.ts";
import type { Records } from "./checks/records.ts";
import type { RunSettings } from "./draw.ts";
import { type FaultPlan, type TimedFault, untilFinished } from "./faults.ts";
import { SeededChance } from "./world/chance.ts";
import type { Answer } from "./world/network.ts";
import type { SimulatedWorld } from "./world/world.ts";

/** Share of these worlds in which orchestrators come back only when the crews have finished. */
const untilFinishedShare = 0.4;
/** And in which little else happens: the rules of a crew then decide alone. */
const quietShare = 0.5;

/** What a seed draws, with sessions that go on without orchestrators and faults that make them do so. */
export function withAutonomy(seed: number, settings: RunSettings): RunSettings {
  const chance = new SeededChance(seed, "autonomy");
  const { plan, fleet } = settings;
  const isForGood = chance.happens(untilFinishedShare);
  const isQuiet = chance.happens(quietShare);
  const added: { atMs: number; fault: TimedFault }[] = [];
  const goneMs = chance.between(2_500, 12_000);
  const gone = { kind: "orchestrators gone", hosts: fleet.orchestrators } as const;
  if (isForGood) added.push({ atMs: goneMs, fault: { ...gone, durationMs: untilFinished } });
  else
    for (let atMs = goneMs; atMs < plan.windowMs; atMs += chance.between(8_000, 30_000))
      added.push({ atMs, fault: { ...gone, durationMs: chance.skewed(1_000, 25_000) } });
  // One machine more is lost while nobody is there.
  for (let count = chance.whole(1, 3); count > 0; count--)
    added.push({
      atMs: goneMs + chance.between(500, 15_000),
      fault: {
        kind: "crash",
        host: `busy/${chance.uniform()}`,
        silent: chance.happens(0.3),
        durationMs: chance.skewed(2_000, 20_000),
      },
    });
  if (chance.happens(0.3))
    added.push({
      atMs: goneMs + chance.between(-2_000, 12_000),
      fault: { kind: "disk lost", host: chance.pick(fleet.pnodes), durationMs: chance.skewed(300, 6_000) },
    });
  if (chance.happens(0.3) && fleet.pnodes.length > 1) {
    const from = fleet.pnodes.filter(() => chance.happens(0.5)).slice(0, fleet.pnodes.length - 1);
    const side = from.length > 0 ? from : fleet.pnodes.slice(0, 1);
    const to = fleet.pnodes.filter((name) => !side.includes(name));
    added.push({
      atMs: goneMs + chance.between(0, 12_000),
      fault: { kind: "split", from: side, to, durationMs: chance.skewed(1_000, 12_000) },
    });
  }
  // Nobody but an orchestrator decides what becomes of two PNodes that never reach each other.
  const kept = plan.timed.filter(({ fault }) => fault.kind !== "cut" && (!isQuiet || chance.happens(0.1)));
  const timed = [...kept, ...added.filter(({ atMs }) => atMs < plan.windowMs)].sort((a, b) => a.atMs - b.atMs);
  const sessions = settings.sessions.map((wish, index) => ({
    ...wish,
    policy: { ...wish.policy, ...(index === 0 || chance.happens(0.6) ? { autonomy: "on" as const } : {}) },
  }));
  // Those who are left have room for what the lost ones hosted.
  return { ...settings, sessions, vnodesPerPNode: settings.vnodesPerPNode + 2, plan: { ...plan, timed } };
}

export function lastsUntilFinished({ timed }: FaultPlan): boolean {
  return timed.some(({ fault }) => fault.kind === "orchestrators gone" && fault.durationMs === untilFinished);
}

/** News of a death is believed within this, and what came before it is done. */
const settledMs = 5_000;

/** What one of a crew holds is known to the others within this. */
const allHearMs = 1_500;

/** The store's line is held by the crew within this. */
const heldWithinMs = 4_000;

interface Said {
  readonly tenure: Tenure;
  readonly incarnation: string;
  readonly sinceMs: number;
}

export class CrewWatch {
  readonly #world: SimulatedWorld;
  readonly #records: Records;
  readonly #disks: ReadonlyMap<string, Map<string, Uint8Array>>;
  readonly #violations: Violations;
  readonly #isWhole: () => boolean;
  readonly #isHidden: (host: string) => boolean;
  readonly #shards: ReadonlyMap<string, ReadonlyMap<Sha256, Uint8Array>>;
  readonly #crashedMs = new Map<string, number>();
  readonly #lines = new Set<string>();
  /** What each PNode says of who hosts what. */
  readonly #said = new Map<string, Said>();
  /** Who has worked, by process and VNode, on what it said is another's: its next word decides. */
  readonly #working = new Map<string, { readonly host: string; readonly vnode: string }>();
  #disturbedMs = -settledMs;
  #processes = "";
  #disksLost = 0;
  #watched: SessionRecord[] = [];

  /** `isWhole`: everybody reaches everybody. `shards`: what machines have fetched of data. `isHidden`: nobody can call it without a relay. */
  constructor(
    world: SimulatedWorld,
    records: Records,
    disks: ReadonlyMap<string, Map<string, Uint8Array>>,
    violations: Violations,
    isWhole: () => boolean,
    shards: ReadonlyMap<string, ReadonlyMap<Sha256, Uint8Array>> = new Map(),
    isHidden: (host: string) => boolean = () => false,
  ) {
    this.#isHidden = isHidden;
    this.#shards = shards;
    this.#world = world;
    this.#records = records;
    this.#disks = disks;
    this.#violations = violations;
    this.#isWhole = isWhole;
    world.onCrash(({ name }) => {
      this.#crashedMs.set(name, world.time.nowMs);
      // The next process of the PNode has said nothing yet.
      for (const said of this.#said.keys()) if (said.startsWith(`${name} `)) this.#said.delete(said);
    });
  }

  loseDisk(host: string): void {
    this.#disks.get(host)?.clear();
    this.#disksLost += 1;
    this.#watched = this.#watched.filter(({ id }) => !isLostToAll(id, this.#disks, this.#isHidden));
  }

  // A state that two hold

  #onTwo: ((hosts: readonly string[]) => void) | undefined;
  /** The state's file, and who alone has room for it. */
  #scarce: { readonly name: string; readonly hosts: readonly string[] } | undefined;

  whenTwoHold(strike: (hosts: readonly string[]) => void): void {
    this.#onTwo = strike;
  }

  refuses(host: string, name: string): boolean {
    return this.#scarce?.name === name && !this.#scarce.hosts.includes(host);
  }

  /** A keeper answers that it holds a state: all shall hear that before the two die, and nobody else shall get it. */
  kept({ request, caller, server }: Answer): void {
    const strike = this.#onTwo;
    const { session, vnode, step } = request as KeepRequest;
    const hosts = [caller, server];
    if (strike === undefined || !this.#holdAlone(hosts, session, vnode, Number(step))) return;
    this.#onTwo = undefined;
    this.#scarce = { name: stateName({ session, vnode, step: Number(step) } as KeptState), hosts };
    this.#world.time.after(allHearMs, () => {
      this.#scarce = undefined;
      strike(hosts);
    });
  }

  /** The first VNode that came to the step, and the only one that these PNodes host. */
  #holdAlone(hosts: readonly string[], session: string, vnode: string, step: number): boolean {
    const others = (this.#records.session(session)?.vnodes ?? []).filter((other) => other !== vnode);
    const owns = (pnode: string, other: string) =>
      this.#said.get(`${pnode} ${session} ${other}`)?.tenure.owners.some((owner) => owner.pnode === pnode) ?? false;
    return (
      this.#holders(session, vnode, step).toSorted().join() === hosts.toSorted().join() &&
      others.every((other) => this.#holders(session, other, step).length === 0) &&
      !others.some((other) => hosts.some((pnode) => owns(pnode, other)))
    );
  }

  // Finishing without orchestrators

  /** From now on these sessions are expected to finish by themselves. */
  orchestratorsGone(): void {
    this.#watched = this.#records.sessions().filter((session) => this.#isChartered(session));
  }

  get areFinished(): boolean {
    return this.#watched.every((session) => this.#isFinished(session));
  }

  hang(): void {
    const waiting = this.#watched.filter((session) => !this.#isFinished(session)).map(({ id }) => id);
    this.#violations.add(
      "hang",
      this.#world.time.nowMs,
      `without orchestrators ${waiting.join(", ")} did not come to an end`,
    );
  }

  /** Everybody who could have to go on with it knows what it is, and its data is among them. */
  #isChartered({ id, status, policy, vnodes, identity }: SessionRecord): boolean {
    if (policy.autonomy !== "on" || status !== "running" || !this.#hasData(identity.dataset)) return false;
    const knows = (pnode: string) => {
      const content = this.#disks.get(pnode)?.get(`charter-${id}`);
      return content !== undefined && fromBinary(KeptCharterSchema, content).described.byteLength > 0;
    };
    return vnodes.every((vnode) => {
      const members = this.#records.vnode(id, vnode)?.members ?? [];
      return members.length > 0 && members.every(({ pnode }) => knows(pnode));
    });
  }

  #hasData(dataset: string): boolean {
    const fetched = (hash: string) =>
      [...this.#shards.values()].map((files) => files.get(hash as Sha256)).find((content) => content !== undefined);
    const manifest = fetched(dataset);
    if (manifest === undefined) return false;
    return blobsOf(parseManifest(new TextDecoder().decode(manifest))).every(
      ({ hash, bytes }) => bytes === undefined || fetched(hash) !== undefined,
    );
  }

  #isFinished({ id, vnodes, identity }: SessionRecord): boolean {
    if (this.#records.session(id)?.status === "done") return true;
    return vnodes.every((vnode) => this.#holders(id, vnode, identity.steps).length > 0);
  }

  #holders(session: string, vnode: string, step: number): string[] {
    return [...this.#disks].flatMap(([host, files]) => {
      for (const [name, content] of files) {
        if (!name.startsWith("state-")) continue;
        const kept = JSON.parse(new TextDecoder().decode(content)) as KeptState;
        if (kept.session === session && kept.vnode === vnode && kept.step === step) return [host];
      }
      return [];
    });
  }

  // What PNodes say to each other

  told({ request, response, caller, incarnation, server }: Answer): void {
    const { news, incarnation: process } = request as TellRequest;
    const { nowMs } = this.#world.time;
    const answered = (response as { readonly news?: CrewNews }).news;
    this.#noticeDisturbance();
    // Whoever was told of a line knows it: what it would need below that may be gone. While an orchestrator is there, it believes those alone
    // who hold the line's states, and has heard them all where nothing has happened for a while; what one drew that had been
    // alone for a time is held by nobody else, and is the orchestrator's to judge.
    const mustBelieve = () =>
      (answered?.orchestratorAgeMs ?? 0) >= timingsDefault.aloneMs || (this.#isSettled && this.#isHeldByEnough(news));
    if (
      news &&
      answered &&
      (news.turn > answered.turn || (news.turn === answered.turn && news.line > answered.line)) &&
      mustBelieve()
    )
      this.#violations.add("line", nowMs, `${server} was told of the line ${news.line} and stays at ${answered.line}`);
    const teller = this.#world.host(caller);
    // Copies of what a process has said may come after its end.
    if (news === undefined || teller?.incarnation !== incarnation || !teller.alive) return;
    for (const tenure of news.tenures) {
      const name = `${caller} ${news.session} ${tenure.vnode}`;
      const before = this.#said.get(name);
      const same =
        before?.incarnation === process &&
        before.tenure.epoch === tenure.epoch &&
        before.tenure.owners[0]?.pnode === tenure.owners[0]?.pnode;
      if (!same) this.#said.set(name, { tenure, incarnation: process, sinceMs: nowMs });
    }
  }

  /** Judged as it is said: when it arrives, whoever said it may be two lines further and hold no state of this one any more. */
  tells({ incarnation, news }: Pick<TellRequest, "incarnation" | "news">): void {
    if (news === undefined) return;
    this.#noticeDisturbance();
    this.#lineMoved(news.session, Number(news.line), Number(news.turn));
    for (const [name, { host, vnode }] of this.#working) {
      if (!name.startsWith(`${incarnation} ${news.session} `)) continue;
      this.#working.delete(name);
      // Who hosts what is told where the other does not know it, and while no orchestrator is there: else what was said last still holds.
      const told = news.tenures.find((tenure) => tenure.vnode === vnode);
      const said = this.#said.get(`${host} ${news.session} ${vnode}`)?.tenure;
      const { owners } = told ?? said ?? { owners: [] };
      const isSaid = told !== undefined || news.orchestratorAgeMs >= timingsDefault.aloneMs;
      if (isSaid && owners.length > 0 && !owners.some(({ pnode }) => pnode === host))
        this.#violations.add(
          "fence",
          this.#world.time.nowMs,
          `${host} works on ${vnode} although it says that ${owners[0]?.pnode} has taken it over`,
        );
    }
  }

  #isHeldByEnough({ session, line }: Pick<CrewNews, "session" | "line"> = { session: "", line: 0n }): boolean {
    const isAlive = (host: string) => this.#world.host(host)?.alive;
    const vnodes = this.#records.session(session)?.vnodes ?? [];
    return vnodes.every(
      (vnode) => this.#holders(session, vnode, Number(line)).filter(isAlive).length >= Math.min(2, this.#living()),
    );
  }

  get #isSettled(): boolean {
    return this.#world.time.nowMs - this.#disturbedMs >= settledMs;
  }

  #noticeDisturbance(): void {
    const processes = this.#world.hosts.map(({ name, alive, incarnation }) => `${name} ${incarnation} ${alive}`).join();
    if (!this.#isWhole() || processes !== this.#processes) this.#disturbedMs = this.#world.time.nowMs;
    this.#processes = processes;
  }

  /** Messages below a line are gone: its states must be where those who need them reach them. */
  #lineMoved(session: string, line: number, turn: number): void {
    const name = `${session} ${turn} ${line}`;
    if (line === 0 || this.#lines.has(name)) return;
    this.#lines.add(name);
    const record = this.#records.session(session);
    if (record === undefined || record.status === "done" || (record.line >= line && (record.turn ?? 0) >= turn)) return;
    const { nowMs } = this.#world.time;
    const isSettled = this.#isSettled;
    const isGone = (host: string) =>
      !this.#world.host(host)?.alive && nowMs - (this.#crashedMs.get(host) ?? nowMs) >= settledMs;
    for (const vnode of record.vnodes) {
      const holders = this.#holders(session, vnode, line);
      const living = holders.filter((host) => !isGone(host));
      const isHeld = isSettled ? living.length >= Math.min(2, this.#living()) : holders.length > 0;
      if (isHeld || (this.#disksLost > 0 && holders.length > 0)) continue;
      this.#violations.add(
        "line",
        nowMs,
        `messages below ${line} were thrown away, and the state of ${vnode} there is held by ${living.join(" ") || "nobody"} (${holders.join(" ") || "no disk"})`,
      );
    }
  }

  #living(): number {
    return this.#world.hosts.filter(({ name, alive }) => name.startsWith("p") && alive).length;
  }

  /** The store's line never gets ahead of what the crew holds. */
  wroteLine(atMs: number, { id, line, status, vnodes, policy }: SessionRecord): void {
    const name = `store ${id} ${line}`;
    if (policy.autonomy !== "on" || line === 0 || status === "done" || this.#lines.has(name)) return;
    this.#lines.add(name);
    const hasOrchestrators = () => this.#world.hosts.some(({ name, alive }) => name.startsWith("o") && alive);
    // What was stored before the charter came is fetched when it does.
    this.#world.time.after(heldWithinMs, () => {
      const now = this.#records.session(id);
      const isPast = now?.line !== line || now.status === "done";
      if (isPast || this.#disksLost > 0 || !this.#isSteady(atMs) || !hasOrchestrators()) return;
      for (const vnode of vnodes)
        if (this.#holders(id, vnode, line).length === 0)
          this.#violations.add("line", atMs, `the store's line is ${line}, and nobody holds ${vnode} there`);
    });
  }

  /** Nothing but the usual has happened since. */
  #isSteady(sinceMs: number): boolean {
    return this.#disturbedMs < sinceMs - settledMs && [...this.#crashedMs.values()].every((atMs) => atMs < sinceMs);
  }

  /** A PNode has computed something for a VNode. */
  worked(host: string, session: string, vnode: string): void {
    const said = this.#said.get(`${host} ${session} ${vnode}`);
    const { nowMs } = this.#world.time;
    if (said === undefined || said.tenure.count === 0 || said.tenure.owners.some(({ pnode }) => pnode === host)) return;
    const record = this.#records.vnode(session, vnode);
    // An orchestrator has said more since.
    if (record && record.epoch > Number(said.tenure.epoch) && record.members.some(({ pnode }) => pnode === host))
      return;
    if (nowMs - said.sinceMs < settledMs || nowMs - (this.#crashedMs.get(host) ?? -settledMs) < settledMs) return;
    // It may have taken it back just now, and not have said so yet.
    this.#working.set(`${said.incarnation} ${session} ${vnode}`, { host, vnode });
  }
}
