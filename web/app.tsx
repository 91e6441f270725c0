// The one page: what is chosen, and where each part stands.

import { useEffect, useMemo, useState } from "react";
import { Curves } from "./curves/curves.tsx";
import { Graph } from "./graph/graph.tsx";
import { inLanes } from "./graph/lanes.ts";
import { useFirstNetwork, useNetwork } from "./graph/use-network.ts";
import { isUnderWay, useLive, useLiveParts } from "./live/hooks.ts";
import type { SessionView } from "./live/views.ts";
import { Banner } from "./parts/banner.tsx";
import { Chat } from "./parts/chat.tsx";
import { Empty, orchestratorFlag } from "./parts/empty.tsx";
import { Events } from "./parts/events.tsx";
import { Guarded } from "./parts/guarded.tsx";
import { Header } from "./parts/header.tsx";
import { KeyPrompt } from "./parts/key-prompt.tsx";
import { Panel } from "./parts/panel.tsx";
import { PNodes } from "./parts/pnodes.tsx";
import { Sessions } from "./parts/sessions.tsx";
import { Studies } from "./studies/studies.tsx";

export function App() {
  const { follower } = useLiveParts();
  const order = useLive((state) => sessionOrder(state.sessions));
  const ids = useMemo(() => (order === "" ? [] : order.split("\n")), [order]);
  const [chosen, choose] = useState("");
  const selected = ids.includes(chosen) ? chosen : (ids[0] ?? "");
  useEffect(() => {
    if (selected) follower.select(selected);
  }, [selected, follower]);
  const sessionNetwork = useLive((state) => state.sessions.get(selected)?.network ?? "");
  const firstNetwork = useFirstNetwork();
  const lanes = useLive((state) => state.sessions.get(selected)?.lanes ?? 1);
  const plain = useNetwork(sessionNetwork || firstNetwork);
  const network = useMemo(() => plain && inLanes(plain, lanes), [plain, lanes]);
  const known = useLive((state) => state.known);
  return (
    <>
      <Guarded id="header" title="DCNR">
        <Header />
      </Guarded>
      <main>
        <Guarded id="banner" title="What needs attention">
          <Banner />
        </Guarded>
        <Guarded id="key" title="Key">
          <KeyPrompt />
        </Guarded>
        <div className="columns" aria-busy={!known}>
          <div className="column column-wide">
            <Guarded id="graph" title="Network" of={selected}>
              {network ? <Graph session={selected} network={network} /> : <NoNetwork known={known} />}
            </Guarded>
            {selected && (
              <Guarded id="curves" title="Loss and validation" of={selected}>
                <Curves session={selected} />
              </Guarded>
            )}
            <Guarded id="studies" title="Study">
              <Studies />
            </Guarded>
            <Guarded id="pnodes" title="PNodes">
              <PNodes />
            </Guarded>
          </div>
          <div className="column">
            <Guarded id="sessions" title="Sessions">
              <Sessions ids={ids} selected={selected} onSelect={choose} />
            </Guarded>
            <Guarded id="chat" title="Chat">
              <Chat />
            </Guarded>
            <Guarded id="events" title="Events">
              <Events />
            </Guarded>
          </div>
        </div>
      </main>
    </>
  );
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

/** What runs first, then the newest; one string, so that it compares by value. */
function sessionOrder(sessions: ReadonlyMap<string, SessionView>): string {
  return Array.from(sessions.values())
    .sort((a, b) => Number(isUnderWay(b.status)) - Number(isUnderWay(a.status)) || b.createdMs - a.createdMs)
    .map((session) => session.id)
    .join("\n");
}
