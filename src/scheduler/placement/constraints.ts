// The hard constraints: which PNodes may host a workload's VNodes at all, and, when none may, the sentence that
// says exactly why.

import type { Fleet, Pool } from "./fleet.ts";
import { type FleetNode, isMixable, mixedEngine, type Policy, type Requirements, trustLevel } from "./types.ts";

/** The first that it names is the one in which it is fastest. */
export function classOf(node: FleetNode, engine: string): string | undefined {
  return node.numerics.find((one) => (engine === mixedEngine ? isMixable(one.engine) : one.engine === engine))?.class;
}

/** Where classes are mixed a machine can take part in each of its own. */
function computesIn(node: FleetNode, engine: string, numericsClass: string): boolean {
  if (engine === mixedEngine && numericsClass !== "") return node.numerics.some((one) => one.class === numericsClass);
  const own = classOf(node, engine);
  return own !== undefined && (numericsClass === "" || own === numericsClass);
}

/** GPUs of the wanted size that nobody has reserved; reserved ones are taken to be the largest. */
export function gpusFree(node: FleetNode, memoryBytes: number): number {
  let fitting = 0;
  for (const memory of node.gpus) if (memory >= memoryBytes) fitting++;
  return Math.max(0, fitting - (node.gpus.length - node.gpusFree));
}

interface Constraint {
  /** The same for all nodes of a pool. */
  readonly ofPool: boolean;
  /** Depends on what others have reserved, which passes. */
  readonly passes?: true;
  readonly holds: (node: FleetNode, policy: Policy, workload: string) => boolean;
  /** How much of it a PNode has, where that can be told: of those that lack it the one with most is nearest. */
  readonly amount?: (node: FleetNode, policy: Policy) => number;
  /** Said when this constraint is the one that leaves nobody. `before` met all constraints above it. */
  readonly missing: (policy: Policy, before: readonly FleetNode[]) => string;
}

const constraints: readonly Constraint[] = [
  {
    ofPool: true,
    holds: (node) => node.accepting,
    missing: (_, before) =>
      `none of the ${before.length} PNodes online accepts work now (owners' hours or limits, or peers that do not reach them)`,
  },
  {
    ofPool: true,
    holds: (node, policy) => versionOf(node, policy) === policy.bits,
    missing: (policy, before) =>
      `needs version ${policy.bits} of the bits${policy.answers ? " of answers" : ""}; ${versions(before, policy)}: update those machines, or ${policy.answers ? "serve" : "train"} again with their version`,
  },
  {
    ofPool: true,
    holds: (node, { engine, numericsClass }) => computesIn(node, engine, numericsClass),
    missing: ({ engine, numericsClass }, before) =>
      numericsClass === ""
        ? `needs the ${engine} engine; none of ${count(before)} has it`
        : `needs ${engine} numerics of the class ${numericsClass}, in which it began; none of ${count(before)} computes in it: bring one back (sessions with \`--eras on\` go on in another class)`,
  },
  {
    ofPool: true,
    holds: (node, { requirements }) =>
      requirements.architecture === "" || node.architecture === requirements.architecture,
    missing: ({ requirements }, before) => `needs ${requirements.architecture}; none of ${count(before)} is`,
  },
  {
    ofPool: true,
    holds: (node, { requirements }) => requirements.region === "" || node.region === requirements.region,
    missing: ({ requirements }, before) => `needs the region ${requirements.region}; none of ${count(before)} is there`,
  },
  {
    ofPool: true,
    holds: (node, { requirements }) => requirements.provider === "" || node.provider === requirements.provider,
    missing: ({ requirements }, before) =>
      `needs the provider ${requirements.provider}; none of ${count(before)} comes from there`,
  },
  {
    ofPool: true,
    holds: (node, { requirements }) => trustLevel(node.trust) >= trustLevel(requirements.trust),
    missing: ({ requirements }, before) => `needs trust level ${requirements.trust}; none of ${count(before)} has it`,
  },
  {
    ofPool: false,
    holds: (node, { requirements }) => node.cores >= requirements.cpus,
    amount: (node) => node.cores,
    missing: ({ requirements }, before) =>
      `needs ${requirements.cpus} cores; the most that one of ${count(before)} lends is ${most(before, (node) => node.cores)}`,
  },
  {
    ofPool: false,
    holds: (node, { requirements }) => node.memoryBytes >= requirements.memoryBytes,
    amount: (node) => node.memoryBytes,
    missing: ({ requirements }, before) =>
      `needs a PNode with ${bytes(requirements.memoryBytes)} of memory; the largest has ${bytes(most(before, (node) => node.memoryBytes))}`,
  },
  {
    ofPool: false,
    holds: (node, { requirements }) =>
      requirements.maxPricePerHour === 0 || node.pricePerHour <= requirements.maxPricePerHour,
    amount: (node) => -node.pricePerHour,
    missing: ({ requirements }, before) =>
      `needs a price of at most ${requirements.maxPricePerHour} an hour; the cheapest of ${count(before)} costs ${Math.min(...before.map((node) => node.pricePerHour))}`,
  },
  {
    ofPool: false,
    passes: true,
    holds: (node, { requirements }, workload) =>
      node.hosts.has(workload) || gpusFree(node, requirements.gpuMemoryBytes) >= requirements.gpus,
    amount: (node, { requirements }) => gpusFree(node, requirements.gpuMemoryBytes),
    missing: (policy, before) => gpuReason(policy, before, policy.requirements.gpus),
  },
];

const poolConstraints = constraints.filter(({ ofPool }) => ofPool);
const nodeConstraints = constraints.filter(({ ofPool }) => !ofPool);

/** The same as `eligible` for a node of a pool that is. */
export function eligibleInPool(node: FleetNode, policy: Policy, workload: string): boolean {
  for (const constraint of nodeConstraints) if (!constraint.holds(node, policy, workload)) return false;
  return true;
}

/** All but the memory of the single VNode. */
export function eligible(node: FleetNode, policy: Policy, workload: string): boolean {
  return constraints.every((constraint) => constraint.holds(node, policy, workload));
}

/** As much of a policy as says which PNodes may host a workload at all. */
export type ConstraintPolicy = Pick<Policy, "bits" | "answers" | "engine" | "numericsClass" | "requirements">;

const anywhere: Omit<Policy, keyof ConstraintPolicy> = {
  copies: 1,
  current: new Map(),
  avoid: new Map(),
  holdsData: new Set(),
};

/** All but the memory of the single VNode, if nobody else had anything: what others use passes. */
export function suits(node: FleetNode, policy: ConstraintPolicy): boolean {
  const { gpus, gpuMemoryBytes } = policy.requirements;
  if (gpus > 0 && node.gpus.filter((memory) => memory >= gpuMemoryBytes).length < gpus) return false;
  const whole: Policy = { ...anywhere, ...policy };
  return constraints.every((constraint) => constraint.passes || constraint.holds(node, whole, ""));
}

/**
 * Of PNodes that are taken to be empty the one that meets most constraints, and what it lacks first; of several that lack the
 * same the one with most of it. An empty sentence where it lacks nothing.
 */
export function nearest(
  nodes: readonly FleetNode[],
  policy: ConstraintPolicy,
): { readonly node: FleetNode; readonly lacks: string } | undefined {
  const whole: Policy = { ...anywhere, ...policy };
  const judged = nodes.map((node) => {
    const empty = { ...node, gpusFree: node.gpus.length, memoryFreeBytes: node.memoryBytes };
    const failing = constraints.filter((constraint) => !constraint.holds(empty, whole, ""));
    return { node: empty, failing: failing.length, first: failing[0] };
  });
  const fewest = judged.reduce((least, { failing }) => Math.min(least, failing), Number.POSITIVE_INFINITY);
  const best = judged.filter(({ failing }) => failing === fewest);
  const first = best[0]?.first;
  const alike = best.filter((one) => one.first === first).map(({ node }) => node);
  const amount = (node: FleetNode) => first?.amount?.(node, whole) ?? 0;
  const [node] = alike.sort((a, b) => amount(b) - amount(a) || b.memoryBytes - a.memoryBytes || (a.id < b.id ? -1 : 1));
  return node && { node, lacks: first?.missing(whole, alike) ?? "" };
}

/** False if no node of the pool can be eligible, except those that host the workload already. */
export function poolEligible(pool: Pool, policy: Policy, workload: string): boolean {
  const { gpus, gpuMemoryBytes } = policy.requirements;
  if (gpus > 0 && gpusFree(pool.example, gpuMemoryBytes) < gpus) return false;
  return poolConstraints.every((constraint) => constraint.holds(pool.example, policy, workload));
}

export function gpuReason(policy: Policy, nodes: readonly FleetNode[], gpus: number): string {
  const { gpuMemoryBytes } = policy.requirements;
  const all = nodes.reduce((sum, node) => sum + node.gpus.filter((memory) => memory >= gpuMemoryBytes).length, 0);
  const free = nodes.reduce((sum, node) => sum + gpusFree(node, gpuMemoryBytes), 0);
  const size = gpuMemoryBytes > 0 ? ` with ${bytes(gpuMemoryBytes)}` : "";
  const needed = `needs ${gpus} ${gpus === 1 ? "GPU" : "GPUs"}${size}`;
  if (all === 0) return `${needed}; none of ${nodes.length} ${nodes.length === 1 ? "PNode" : "PNodes"} lends one`;
  const together = free >= gpus && gpus > 1 ? ", not on one PNode" : "";
  const next = all > free ? policy.nextFree?.("gpus") : "";
  return `${needed}; ${free} free of ${all}${together}${next ? `; ${next}` : ""}`;
}

/** Says why no PNode can take a unit; looks at the whole fleet once, so it is for units that stay without a place. */
export function whyNot(
  fleet: Fleet,
  policy: Policy,
  workload: string,
  memoryLeft: (node: FleetNode) => number,
): (unit: { readonly memoryBytes: number; readonly gpus: number }) => string {
  let nodes = Array.from(fleet.nodes());
  if (nodes.length === 0) return () => "no PNode is online: lend a machine with `dcnr join`";
  for (const constraint of constraints) {
    const left = nodes.filter((node) => constraint.holds(node, policy, workload));
    if (left.length === 0) {
      const reason = constraint.missing(policy, nodes);
      return () => reason;
    }
    nodes = left;
  }
  const freeWith = new Map<number, { free: number; count: number }>();
  return (unit) => {
    let found = freeWith.get(unit.gpus);
    if (!found) {
      const able = nodes.filter((node) => gpusFree(node, policy.requirements.gpuMemoryBytes) >= unit.gpus);
      found = { free: most(able, memoryLeft), count: able.length };
      freeWith.set(unit.gpus, found);
    }
    if (found.count === 0) return gpuReason(policy, nodes, unit.gpus);
    if (found.free < unit.memoryBytes) return memoryReason(policy, unit.memoryBytes, found);
    return priceReason(policy.requirements) ?? "it failed on every PNode that could take it";
  };
}

function memoryReason(policy: Policy, needed: number, found: { free: number; count: number }): string {
  const next = policy.nextFree?.("memory");
  const among = found.count === 1 ? "1 PNode" : `${found.count} PNodes`;
  return `needs ${bytes(needed)} of memory; the most that is free on one of ${among} is ${bytes(found.free)}${next ? `; ${next}` : ""}`;
}

function priceReason(requirements: Requirements): string | undefined {
  if (requirements.maxPricePerHour === 0) return undefined;
  return `all PNodes that take part may cost ${requirements.maxPricePerHour} an hour together; one more would cost too much`;
}

function versionOf({ bits, answerBits = 0 }: FleetNode, { answers }: Pick<Policy, "answers">): number {
  return answers ? answerBits : bits;
}

function versions(nodes: readonly FleetNode[], policy: Policy): string {
  const known = [...new Set(nodes.map((node) => versionOf(node, policy)))].sort((a, b) => a - b);
  return nodes.length === 1 ? `the only PNode has ${known[0]}` : `the ${nodes.length} PNodes have ${known.join(", ")}`;
}

function count(nodes: readonly FleetNode[]): string {
  return nodes.length === 1 ? "1 PNode" : `${nodes.length} PNodes`;
}

function most(nodes: readonly FleetNode[], of: (node: FleetNode) => number): number {
  return nodes.reduce((largest, node) => Math.max(largest, of(node)), 0);
}

export function bytes(value: number): string {
  if (value >= 1 << 30) return `${Number((value / (1 << 30)).toFixed(1))} GB`;
  return `${Math.max(0, Math.ceil(value / (1 << 20)))} MB`;
}
