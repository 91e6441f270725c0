// How patient and how talkative membership is. Figures for fleets of 2 to 10,000: bench/results.md, section Membership.

export interface MembershipTimings {
  /** Between two probes of a member that is well; one that misses answers probes more rarely. */
  readonly periodMs: number;
  /** A probe that is not answered within this is late: others are asked to try. */
  readonly probeTimeoutMs: number;
  /** For those to answer, and for a late answer of the probed member itself: a machine may stand still for seconds. */
  readonly viaTimeoutMs: number;
  readonly giveUpMs: number;
  /** Who is asked to try as well. */
  readonly helpers: number;
  /** Watched because they follow in the ring, so that everybody is watched by as many; and watched by chance. */
  readonly ringPartners: number;
  readonly chancePartners: number;
  /** One of those is exchanged this often. */
  readonly rotateMs: number;
  /** A suspect has at least `suspectPeriods` periods times the logarithm of the fleet's size, and this many times that while nobody confirms. */
  readonly suspectPeriods: number;
  readonly suspectStretch: number;
  /** Confirmations that shorten it to the least. */
  readonly confirmations: number;
  /** A tick that comes later than this says that the process itself stood still. */
  readonly standstillMs: number;
  /** Whoever cannot be called and does not call for this long is suspected. */
  readonly quietMs: number;
  /** What a member knows is compared with another's this often. */
  readonly syncMs: number;
  /** One of the dead is called this often: after a split both sides have buried each other. */
  readonly retryDeadMs: number;
  /** The dead are remembered for this long. */
  readonly forgetMs: number;
  /** Refutations of one member are at least this far apart, whoever accuses it. */
  readonly refuteMs: number;
  /** Of news in one message; more while much is new. */
  readonly newsBytes: number;
  readonly newsBytesMax: number;
  /** All changes of load in the fleet together come at most this often. */
  readonly fleetLoadMs: number;
  readonly loadMs: number;
}

export const membershipTimings: MembershipTimings = {
  periodMs: 1_000,
  probeTimeoutMs: 1_000,
  viaTimeoutMs: 4_000,
  giveUpMs: 6_000,
  helpers: 5,
  ringPartners: 3,
  chancePartners: 3,
  rotateMs: 60_000,
  suspectPeriods: 1.75,
  suspectStretch: 3,
  confirmations: 3,
  standstillMs: 500,
  quietMs: 30_000,
  syncMs: 60_000,
  retryDeadMs: 20_000,
  forgetMs: 24 * 3_600_000,
  refuteMs: 1_000,
  newsBytes: 1_300,
  newsBytesMax: 32 << 10,
  fleetLoadMs: 3_000,
  loadMs: 60_000,
};
