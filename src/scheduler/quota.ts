// Quotas: what each queue and each owner may use, and what queues of one cohort lend each other while it is idle. Pure:
// whoever keeps a cohort's record changes it by compare-and-set with `claimed`, so no two deciders pass a quota together.

/** What is counted of a job: by quotas, and as its owner's use. */
export interface Amounts {
  readonly cores: number;
  readonly gpus: number;
  readonly memoryBytes: number;
  readonly jobs: number;
}

export const resources = ["cores", "gpus", "memoryBytes", "jobs"] as const;
export type Resource = (typeof resources)[number];

/** Absent: no bound. */
export type Limits = { readonly [R in Resource]?: number };

export interface QueueRules {
  readonly name: string;
  /** What is the queue's own. */
  readonly nominal: Limits;
  /** More than nominal, while others of the cohort leave it idle; absent: all that they lend. */
  readonly borrowMax: Limits;
  /** Of its nominal that others may borrow; absent: all that is idle. */
  readonly lendMax: Limits;
  /** Of each owner in this queue. */
  readonly ownerMax: Limits;
  /** Of single owners, instead. */
  readonly owners: Readonly<Record<string, Limits>>;
  /** Share of its jobs' owners beside others'. */
  readonly weight: number;
  /** More jobs are refused. */
  readonly pendingMax: number;
}

export interface QuotaClaim {
  readonly queue: string;
  readonly owner: string;
  /** Of the job when it runs: once the job has passed it, the claim is rubbish. */
  readonly epoch: number;
  readonly amounts: Amounts;
}

/** The queues of one cohort and what is claimed of them: one record, so that borrowing is checked where it is written. */
export interface QuotaBook {
  readonly queues: Readonly<Record<string, QueueRules>>;
  /** By job. */
  readonly claims: Readonly<Record<string, QuotaClaim>>;
}

export interface QuotaRefusal {
  /** "owner", "queue": its own bound; "cohort": what would be its own is lent to others, or nobody has any idle. */
  readonly whose: "owner" | "queue" | "cohort";
  readonly resource: Resource;
  readonly queue: string;
  readonly owner: string;
  readonly wanted: number;
  readonly used: number;
  readonly limit: number;
  /** Within what is the queue's own: who borrowed it has to give it back. */
  readonly reclaims: boolean;
}

export type Wanted = Omit<QuotaClaim, "epoch">;

/** A record of the store holds 350 KB, and a claim has about 130 bytes. */
export const quotaClaimsMax = 2_400;

/** What is in use, kept while claims are added so that thousands of jobs cost one walk. */
export class Usage {
  readonly #book: QuotaBook;
  readonly #byQueue = new Map<string, Record<Resource, number>>();
  readonly #byOwner = new Map<string, Record<Resource, number>>();

  constructor(book: QuotaBook) {
    this.#book = book;
    for (const claim of Object.values(book.claims)) this.add(claim);
  }

  add({ queue, owner, amounts }: Wanted, sign: 1 | -1 = 1): void {
    count(this.#byQueue, queue, amounts, sign);
    count(this.#byOwner, ownerKey(queue, owner), amounts, sign);
  }

  used(queue: string, resource: Resource): number {
    return this.#byQueue.get(queue)?.[resource] ?? 0;
  }

  usedBy(queue: string, owner: string, resource: Resource): number {
    return this.#byOwner.get(ownerKey(queue, owner))?.[resource] ?? 0;
  }

  /** Above nominal, of one queue. */
  borrowed(queue: string, resource: Resource): number {
    const nominal = this.#book.queues[queue]?.nominal[resource] ?? Number.POSITIVE_INFINITY;
    return Math.max(0, this.used(queue, resource) - nominal);
  }

  /** Undefined if it may be claimed; else the first bound that says no. */
  refusal(wanted: Wanted): QuotaRefusal | undefined {
    const rules = this.#book.queues[wanted.queue];
    if (!rules) return undefined;
    for (const resource of resources) {
      const refused = this.#owner(rules, wanted, resource) ?? this.#queue(rules, wanted, resource);
      if (refused) return refused;
    }
    return undefined;
  }

  #owner(rules: QueueRules, { queue, owner, amounts }: Wanted, resource: Resource): QuotaRefusal | undefined {
    const limit = (rules.owners[owner] ?? rules.ownerMax)[resource];
    const used = this.usedBy(queue, owner, resource);
    const wanted = amounts[resource];
    if (limit === undefined || wanted === 0 || used + wanted <= limit) return undefined;
    return { whose: "owner", resource, queue, owner, wanted, used, limit, reclaims: false };
  }

  #queue(rules: QueueRules, { queue, owner, amounts }: Wanted, resource: Resource): QuotaRefusal | undefined {
    const nominal = rules.nominal[resource];
    const wanted = amounts[resource];
    if (nominal === undefined || wanted === 0) return undefined;
    const used = this.used(queue, resource);
    const most = nominal + (rules.borrowMax[resource] ?? Number.POSITIVE_INFINITY);
    const about = { resource, queue, owner, wanted, used };
    const own = used + wanted <= nominal;
    if (used + wanted > most) return { whose: "queue", ...about, limit: most, reclaims: false };
    const { borrowed, lendable } = this.#cohortAfter(queue, resource, wanted);
    if (borrowed <= lendable) return undefined;
    if (own) return { whose: "cohort", ...about, limit: nominal, reclaims: true };
    const others = Object.keys(this.#book.queues).length > 1;
    return { whose: others ? "cohort" : "queue", ...about, limit: nominal, reclaims: false };
  }

  #cohortAfter(queue: string, resource: Resource, wanted: number): { borrowed: number; lendable: number } {
    let borrowed = 0;
    let lendable = 0;
    for (const { name, nominal, lendMax } of Object.values(this.#book.queues)) {
      const own = nominal[resource] ?? Number.POSITIVE_INFINITY;
      const used = this.used(name, resource) + (name === queue ? wanted : 0);
      borrowed += Math.max(0, used - own);
      lendable += Math.min(lendMax[resource] ?? Number.POSITIVE_INFINITY, Math.max(0, own - used));
    }
    return { borrowed, lendable };
  }
}

export interface Claimed {
  /** Undefined if nothing was. */
  readonly book: QuotaBook | undefined;
  readonly jobs: ReadonlySet<string>;
}

/** Claims in their order, each whole or not at all. A job that has a claim already keeps the newer of both. */
export function claimed(book: QuotaBook, wanted: ReadonlyMap<string, QuotaClaim>): Claimed {
  const jobs = new Set<string>();
  const claims: Record<string, QuotaClaim> = { ...book.claims };
  const usage = new Usage(book);
  let size = Object.keys(claims).length;
  for (const [job, claim] of wanted) {
    const before = claims[job];
    if (before && before.epoch > claim.epoch) continue;
    if (before) usage.add(before, -1);
    if ((!before && size >= quotaClaimsMax) || usage.refusal(claim)) {
      if (before) usage.add(before);
      continue;
    }
    if (!before) size += 1;
    usage.add(claim);
    claims[job] = claim;
    jobs.add(job);
  }
  return { book: jobs.size > 0 ? { ...book, claims } : undefined, jobs };
}

/** Without the claims of these jobs up to these epochs; undefined if none of them is there. */
export function unclaimed(book: QuotaBook, ended: ReadonlyMap<string, number>): QuotaBook | undefined {
  const kept = Object.entries(book.claims).filter(([job, { epoch }]) => epoch > (ended.get(job) ?? -1));
  if (kept.length === Object.keys(book.claims).length) return undefined;
  return { ...book, claims: Object.fromEntries(kept) };
}

function count(sums: Map<string, Record<Resource, number>>, name: string, amounts: Amounts, sign: 1 | -1): void {
  const sum = sums.get(name) ?? { cores: 0, gpus: 0, memoryBytes: 0, jobs: 0 };
  sums.set(name, sum);
  for (const resource of resources) sum[resource] += sign * amounts[resource];
}

function ownerKey(queue: string, owner: string): string {
  return `${queue}\n${owner}`;
}

export const queueRulesDefault: Omit<QueueRules, "name"> = {
  nominal: {},
  borrowMax: {},
  lendMax: {},
  ownerMax: {},
  owners: {},
  weight: 1,
  pendingMax: 20_000,
};
