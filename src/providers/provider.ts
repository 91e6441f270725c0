// Capacity from elsewhere, on demand: what every provider does, whatever runs its machines. A provider decides nothing: it
// starts PNodes that somebody has written down already, tells which of them it sees, and ends them. Each kind is one file
// behind this interface and passes one suite (conformance.ts).

import { type DcnrError, messageOf } from "../core/errors.ts";

/** A machine that can be had. */
export interface Offer {
  readonly name: string;
  readonly cores: number;
  readonly memoryBytes: number;
  readonly gpus: number;
  /** Of each; 0 if nobody said. */
  readonly gpuMemoryBytes: number;
  /** As the cluster calls it; empty for any. */
  readonly gpuType: string;
  readonly pricePerHour: number;
  readonly region: string;
  /** It may be taken away at any time. */
  readonly spot: boolean;
  /** Of this offer at once. */
  readonly most: number;
  /** From the start until it joins, as far as is known before the first one. */
  readonly bootSeconds: number;
}

/** A PNode that is to be started. Its record is written before, so that whatever is found by its id is known. */
export interface Wanted {
  /** `BATCH-INDEX`: those of one call of `start` share the batch and count up from 0. */
  readonly instance: string;
  /** With which it joins: one machine, for a short time. */
  readonly link: string;
  /** Shown to people. */
  readonly name: string;
}

export interface Seen {
  readonly instance: string;
  /** What the cluster calls it. */
  readonly handle: string;
  readonly state: "waiting" | "running" | "ended";
  /** Why it waits or how it ended, where the cluster says. */
  readonly detail: string;
}

/** One thing that was looked at when the provider was tested. */
export interface Finding {
  readonly isWell: boolean;
  readonly sentence: string;
}

/**
 * All of these fail with one sentence that says what is wrong and what to do. None of them is told twice what it did: after
 * a failure of `start` nobody knows what began, and `list` tells.
 */
export interface Provider {
  /** What an operator should know before anything is started. Never fails. */
  test(): Promise<readonly Finding[]>;
  offers(): Promise<readonly Offer[]>;
  /** All of one offer and one batch. */
  start(offer: Offer, wanted: readonly Wanted[]): Promise<void>;
  /** Whatever carries this provider's label, also what was started by others who died. */
  list(): Promise<readonly Seen[]>;
  /**
   * Politely: a PNode that is told to end hands its work over. `hurry` kills those that were told before and did not end.
   * Of those that have ended it removes what is left; those that are gone already are no failure.
   */
  stop(seen: readonly Seen[], hurry?: boolean): Promise<void>;
  /** The last words of one, for people; empty if there are none. */
  logs(seen: Seen): Promise<string>;
}

/** What a provider is called where its machines run: two networks that share a cluster do not touch each other's. */
export interface Label {
  /** From the network's key. */
  readonly cluster: string;
  readonly provider: string;
}

export interface ProviderSettings extends Label {
  readonly kind: string;
  /** Checked by the kind (kinds.ts). */
  readonly parameters: Readonly<Record<string, string>>;
  /** As the operator declared them; a kind may find out by itself if there are none. */
  readonly offers: readonly Offer[];
}

export interface CommandResult {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** The world, as far as providers touch it. */
export interface ProviderTools {
  /** Runs a program without a shell. Fails with `failed_precondition` if there is none of this name. */
  command(
    program: string,
    args: readonly string[],
    options?: { readonly input?: string; readonly timeoutMs?: number },
  ): Promise<CommandResult>;
  /** Fails with `unavailable` if nobody answers. */
  http(request: HttpRequest): Promise<HttpResponse>;
  readFile(path: string): Promise<string>;
  /** `dcnr` on this machine, and the folder where PNodes on this machine may live. */
  readonly program: string;
  readonly folder: string;
}

export interface HttpRequest {
  readonly method: "GET" | "POST" | "DELETE";
  readonly url: string;
  /** Instead of a connection to the address's host. */
  readonly socketPath?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
  readonly tls?: { readonly ca?: string; readonly cert?: string; readonly key?: string };
  readonly timeoutMs?: number;
}

export interface HttpResponse {
  readonly status: number;
  readonly text: string;
}

/** Looks at one thing after the other until one is wrong; what each found is a sentence. */
export async function findings(...looks: readonly (() => Promise<string>)[]): Promise<Finding[]> {
  const found: Finding[] = [];
  for (const look of looks) {
    try {
      found.push({ isWell: true, sentence: await look() });
    } catch (thrown) {
      found.push({ isWell: false, sentence: messageOf(thrown as DcnrError) });
      break;
    }
  }
  return found;
}

export function batchOf(instance: string): string {
  return instance.slice(0, instance.lastIndexOf("-"));
}

/** An id as `batchOf` takes it apart; anything else that carries our label is not ours. */
export function isInstance(text: string): boolean {
  return /^[a-z2-7]{6,20}-\d{1,4}$/.test(text);
}
