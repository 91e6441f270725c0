// How long an orchestrator waits for what, with the reasons.

export interface Timings {
  readonly heartbeatIntervalMs: number;
  /** A PNode that says nothing for this long is lost, even if its stream looks whole. */
  readonly silentMs: number;
  /** A broken stream is often back at once: a short grace saves a move. Who is far away has some round trips more. */
  readonly graceMs: number;
  /** Another orchestrator whose record stands still this long has died. */
  readonly presenceExpiryMs: number;
  readonly presenceIntervalMs: number;
  /** PNodes of an orchestrator that died have this long to attach elsewhere. */
  readonly orphanGraceMs: number;
  /** Hints may get lost; a listing this often makes up for it. */
  readonly refreshIntervalMs: number;
  readonly rebalanceIntervalMs: number;
  /** Between two looks for sessions whose numerics class is gone. */
  readonly eraIntervalMs: number;
  /** A machine that was restarted is back by then, with its class. */
  readonly eraPatienceMs: number;
  /** What audits wait for is looked at this often, beside whenever one of them changes. */
  readonly auditIntervalMs: number;
  readonly metricsFlushMs: number;
  readonly eventsFlushMs: number;
  /** Uptime is saved this often per PNode: 1,000 PNodes cause about one write a second. */
  readonly uptimeSaveMs: number;
  /** Between two signed states of the ledger. */
  readonly ledgerHeadMs: number;
  /** A blob that no record names is deleted only this much later. */
  readonly garbageDelayMs: number;
  /** Between two searches for uploads that nobody recorded, and how old they must be. */
  readonly unrecordedCheckMs: number;
  readonly unrecordedAfterMs: number;
  /** Between two looks for records of machines that are gone. */
  readonly departedCheckMs: number;
  /** Between two looks at what providers run. */
  readonly providerIntervalMs: number;
}

export const timingsDefault: Timings = {
  heartbeatIntervalMs: 1_000,
  silentMs: 3_000,
  graceMs: 400,
  presenceExpiryMs: 2_500,
  presenceIntervalMs: 1_000,
  orphanGraceMs: 2_500,
  refreshIntervalMs: 5_000,
  rebalanceIntervalMs: 30_000,
  eraIntervalMs: 5_000,
  eraPatienceMs: 60_000,
  auditIntervalMs: 1_000,
  metricsFlushMs: 3_000,
  eventsFlushMs: 2_000,
  uptimeSaveMs: 900_000,
  ledgerHeadMs: 60_000,
  garbageDelayMs: 60_000,
  unrecordedCheckMs: 60 * 60_000,
  unrecordedAfterMs: 24 * 60 * 60_000,
  departedCheckMs: 60 * 60_000,
  providerIntervalMs: 5_000,
};
