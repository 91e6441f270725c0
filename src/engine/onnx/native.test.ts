import { engineConformance } from "../conformance.ts";
import { openNativeEngine } from "./native.ts";

engineConformance("native", openNativeEngine);
