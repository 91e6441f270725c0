// One training as it goes: its graph, its curve, and around it the other sessions, machines, chat and events. What one looks at
// stands in the address and stays until one looks elsewhere, whatever starts or ends meanwhile.

import { useEffect, useMemo } from "react";
import { Chat } from "../chat/chat.tsx";
import { Curves } from "../curves/curves.tsx";
import { percent } from "../format.ts";
import { Graph } from "../graph/graph.tsx";
import { inLanes } from "../graph/lanes.ts";
import { useFirstNetwork, useNetwork } from "../graph/use-network.ts";
import { useLive, useLiveParts } from "../live/hooks.ts";
import { Empty, orchestratorFlag } from "../parts/empty.tsx";
import { Events } from "../parts/events.tsx";
import { Guarded } from "../parts/guarded.tsx";
import { Panel } from "../parts/panel.tsx";
import { PNodes } from "../parts/pnodes.tsx";
import { settleAt, useTitle } from "../place/use-address.ts";
import { sessionOrder } from "./order.ts";
import { Sessions } from "./sessions.tsx";

export function Training({ session: asked }: { readonly session: string }) {
  const { follower } = useLiveParts();
  const order = useLive((state) => sessionOrder(state.sessions));
  const ids = useMemo(() => (order === "" ? [] : order.split("\n")), [order]);
  const first = ids[0] ?? "";
  const selected = asked || first;
  useEffect(() => {
    if (!asked && first) settleAt({ page: "sessions", item: first });
  }, [asked, first]);
  useEffect(() => {
    if (selected) follower.select(selected);
  }, [selected, follower]);
  const view = useLive((state) => state.sessions.get(selected));
  const known = useLive((state) => state.known);
  const firstNetwork = useFirstNetwork();
  const plain = useNetwork(view?.network || firstNetwork);
  const lanes = view?.lanes ?? 1;
  const network = useMemo(() => plain && inLanes(plain, lanes), [plain, lanes]);
  useTitle(view ? `${view.network} ${progressOf(view)}` : "");
  return (
    <div className="columns" aria-busy={!known}>
      <div className="column column-wide">
        <Guarded id="graph" title="Network" of={selected}>
          {network ? <Graph session={selected} network={network} /> : <NoNetwork known={known} />}
        </Guarded>
        {view && (
          <Guarded id="curves" title="Loss and validation" of={selected}>
            <Curves session={selected} />
          </Guarded>
        )}
        <Guarded id="pnodes" title="PNodes">
          <PNodes />
        </Guarded>
      </div>
      <div className="column">
        <Guarded id="sessions" title="Sessions">
          <Sessions ids={ids} selected={selected} />
        </Guarded>
        <Guarded id="chat" title="Chat">
          <Chat />
        </Guarded>
        <Guarded id="events" title="Events">
          <Events />
        </Guarded>
      </div>
    </div>
  );
}

function progressOf({ status, step, totalSteps }: { status: string; step: number; totalSteps: number }): string {
  return status === "running" && totalSteps > 0 ? percent(step / totalSteps) : status;
}

function NoNetwork({ known }: { readonly known: boolean }) {
  return (
    <Panel id="graph" title="Network">
      <div className="graph-frame graph-none">
        {known && (
          <Empty
            text="No network yet. Its graph will be here, each VNode in the colour of the machine that runs it."
            commands={[`dcnr network create examples/mlp.yaml${orchestratorFlag()}`]}
          />
        )}
      </div>
    </Panel>
  );
}
