// One conversation: what was said, and the answer that is arriving.

import { useCallback, useEffect, useRef, useState } from "react";
import { inference, sentence } from "../api.ts";

export interface Turn {
  readonly id: number;
  readonly who: "you" | "model";
  readonly text: string;
  readonly state: "arriving" | "done" | "stopped" | "failed";
  readonly note: string;
}

const tokensMax = 200;
const temperature = 0.8;

export interface ChatState {
  readonly turns: readonly Turn[];
  readonly busy: boolean;
  readonly send: (text: string) => Promise<void>;
  readonly stop: () => void;
}

export function useChat(model: string): ChatState {
  const [turns, setTurns] = useState<readonly Turn[]>([]);
  const [busy, setBusy] = useState(false);
  const abort = useRef<AbortController>(undefined);
  const nextId = useRef(0);
  useEffect(() => () => abort.current?.abort(), []);

  const send = useCallback(
    async (prompt: string) => {
      const controller = new AbortController();
      abort.current = controller;
      const answerId = nextId.current + 1;
      nextId.current += 2;
      const changeAnswer = (change: (turn: Turn) => Partial<Turn>) =>
        setTurns((all) => all.map((turn) => (turn.id === answerId ? { ...turn, ...change(turn) } : turn)));
      setBusy(true);
      setTurns((all) => [
        ...all,
        { id: answerId - 1, who: "you", text: prompt, state: "done", note: "" },
        { id: answerId, who: "model", text: "", state: "arriving", note: "" },
      ]);
      const begunMs = performance.now();
      try {
        const request = { model, prompt, maxTokens: tokensMax, sampling: { temperature, seed: randomSeed() } };
        for await (const piece of inference.generate(request, { signal: controller.signal })) {
          if (piece.text) changeAnswer((turn) => ({ text: turn.text + piece.text }));
          if (piece.finish) {
            const perSecond = piece.generatedTokens / ((performance.now() - begunMs) / 1000);
            changeAnswer(() => ({ note: `${piece.generatedTokens} tokens, ${perSecond.toFixed(1)}/s` }));
          }
        }
        changeAnswer(() => ({ state: "done" }));
      } catch (thrown) {
        if (controller.signal.aborted) changeAnswer(() => ({ state: "stopped", note: "stopped" }));
        else changeAnswer(() => ({ state: "failed", note: sentence(thrown) }));
      }
      setBusy(false);
    },
    [model],
  );
  const stop = useCallback(() => abort.current?.abort(), []);
  return { turns, busy, send, stop };
}

function randomSeed(): bigint {
  return BigInt(crypto.getRandomValues(new Uint32Array(1))[0] as number);
}
