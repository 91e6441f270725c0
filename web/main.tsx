// Starts the dashboard in the browser.

import "./language.ts";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import "@xyflow/react/dist/base.css";
import "uplot/dist/uPlot.min.css";
import "./styles/palette.css";
import "./styles/base.css";
import "./styles/layout.css";
import "./styles/graph.css";
import "./styles/curves.css";
import "./styles/lists.css";
import "./styles/chat.css";
import "./styles/studies.css";
import "./styles/tables.css";
import "./styles/forms.css";
import { App } from "./app.tsx";
import { Follower } from "./live/follow.ts";
import { LiveContext } from "./live/hooks.ts";
import { Store } from "./live/store.ts";
import { applyStoredTheme } from "./parts/theme.tsx";

applyStoredTheme();
const store = new Store();
const follower = new Follower(store);
follower.start();
const root = document.getElementById("root");
if (!root) throw new Error("the page has no place for the dashboard");
createRoot(root).render(
  <StrictMode>
    <LiveContext value={{ store, follower }}>
      <App />
    </LiveContext>
  </StrictMode>,
);
