// One conversation: what was said, and the answer that is arriving, with how fast it comes and which machines it comes from.

import { useCallback, useEffect, useRef, useState } from "react";
import { fleet, inference, sentence } from "../api.ts";
import { plural } from "../format.ts";
import { useLiveParts } from "../live/hooks.ts";
import { recall, remember, saidIn, settled, type Turn } from "./history.ts";

const tokensMax = 200;
const temperature = 0.8;
/** Shorter, and the pace is a guess. */
const paceAfterMs = 500;

export interface ChatState {
  readonly turns: readonly Turn[];
  readonly busy: boolean;
  readonly send: (text: string) => Promise<void>;
  readonly stop: () => void;
  readonly forget: () => void;
}

/** `converses`: the model was taught to, so it gets the whole conversation; others go on with each text by itself. */
export function useConversation(model: string, converses: boolean): ChatState {
  const { store } = useLiveParts();
  const [turns, setTurns] = useState<readonly Turn[]>(() => settled(recall(model, drawer())));
  const [busy, setBusy] = useState(false);
  const abort = useRef<AbortController>(undefined);
  const latest = useRef(turns);
  latest.current = turns;
  useEffect(() => () => abort.current?.abort(), []);
  useEffect(() => remember(model, turns, drawer()), [model, turns]);

  const send = useCallback(
    async (prompt: string) => {
      const controller = new AbortController();
      abort.current = controller;
      const first = (latest.current.at(-1)?.id ?? -1) + 1;
      const answerId = first + 1;
      const change = (part: (turn: Turn) => Partial<Turn>) =>
        setTurns((all) => all.map((turn) => (turn.id === answerId ? { ...turn, ...part(turn) } : turn)));
      const said = saidIn(latest.current);
      setBusy(true);
      setTurns((all) => [
        ...all,
        { id: first, who: "you", text: prompt, state: "done", note: "" },
        { id: answerId, who: "model", text: "", state: "arriving", note: "" },
      ]);
      const pace = new Pace();
      let replica = "";
      try {
        const asked = converses ? { messages: [...said, { role: "user", content: prompt }] } : { prompt };
        const request = { model, ...asked, maxTokens: tokensMax, sampling: { temperature, seed: randomSeed() } };
        for await (const piece of inference.generate(request, { signal: controller.signal })) {
          pace.count(piece.tokens.length, piece.generatedTokens);
          replica = piece.replica || replica;
          change((turn) => ({ text: turn.text + piece.text, note: pace.text }));
        }
        change(() => ({ state: "done" }));
      } catch (thrown) {
        if (controller.signal.aborted)
          change(() => ({ state: "stopped", note: `stopped after ${pace.text || "nothing"}` }));
        else change(() => ({ state: "failed", note: sentence(thrown) }));
      }
      setBusy(false);
      const machines = await machinesOf(replica, (id) => store.state.names.get(id) ?? id);
      if (machines) change(({ note }) => ({ note: `${note} · from ${machines}` }));
    },
    [model, converses, store],
  );
  const stop = useCallback(() => abort.current?.abort(), []);
  const forget = useCallback(() => {
    abort.current?.abort();
    setTurns([]);
  }, []);
  return { turns, busy, send, stop, forget };
}

/** Tokens a second from the first one on: what came before is waiting, not answering. */
class Pace {
  #tokens = 0;
  #firstMs: number | undefined;
  #firstTokens = 0;
  #lastMs = 0;

  count(tokens: number, generated: number): void {
    this.#tokens = Math.max(this.#tokens + tokens, generated);
    if (this.#tokens === 0) return;
    this.#lastMs = performance.now();
    this.#firstMs ??= this.#lastMs;
    this.#firstTokens ||= this.#tokens;
  }

  get text(): string {
    if (this.#tokens === 0) return "";
    const ms = this.#lastMs - (this.#firstMs ?? 0);
    const perSecond = ms < paceAfterMs ? "" : `, ${(((this.#tokens - this.#firstTokens) * 1000) / ms).toFixed(1)}/s`;
    return `${plural(this.#tokens, "token")}${perSecond}`;
  }
}

/** The names of the machines on which a replica is; empty if nobody knows. */
async function machinesOf(replica: string, nameOf: (id: string) => string): Promise<string> {
  if (replica === "") return "";
  try {
    const { vnodes } = await fleet.listVNodes({ session: replica, pageSize: 1_000 });
    return Array.from(new Set(vnodes.map(({ pnode }) => nameOf(pnode))))
      .filter(Boolean)
      .join(", ");
  } catch {
    return "";
  }
}

/** Where pages may keep nothing, even asking throws. */
function drawer(): Storage | undefined {
  try {
    return localStorage;
  } catch {
    return undefined;
  }
}

function randomSeed(): bigint {
  return BigInt(crypto.getRandomValues(new Uint32Array(1))[0] as number);
}
