// What a relay carries, for each machine and in all. A relay lends its line to strangers: these are the bounds of that.

export interface RelayLimits {
  /** False: calls and what prepares direct connections; so slow that nobody would want to send tensors. */
  readonly tensors: boolean;
  /** Machines that wait for calls. */
  readonly machinesMax: number;
  readonly connectionsMax: number;
  /** That lead to one machine or come from it. */
  readonly connectionsPerMachine: number;
  /** From one machine to one other, so that no caller takes all that lead there. Orchestrators call by one key together. */
  readonly connectionsPerPair: number;
  /** 0: no limit. */
  readonly bytesPerSecond: number;
  readonly bytesPerSecondPerMachine: number;
  /** Of a connection that carries nothing. */
  readonly idleMs: number;
  /** Until a machine that is rung has to answer. */
  readonly ringMs: number;
}

const common = {
  machinesMax: 10_000,
  connectionsMax: 4_096,
  connectionsPerMachine: 256,
  connectionsPerPair: 32,
  idleMs: 60_000,
  ringMs: 5_000,
};

/** What every orchestrator does: enough for calls, however many machines there are. */
export const callsOnly: RelayLimits = {
  ...common,
  tensors: false,
  bytesPerSecond: 8 << 20,
  bytesPerSecondPerMachine: 256 << 10,
};

/** Half of a usual line for one machine, unless whoever relays says otherwise. */
export function tensorsToo(bytesPerSecond: number): RelayLimits {
  return { ...common, tensors: true, bytesPerSecond, bytesPerSecondPerMachine: bytesPerSecond / 2 };
}
