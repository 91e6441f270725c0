import { checkOperator } from "../oracle.test.ts";
import { broadcastCases } from "./broadcasting.testing.ts";

checkOperator("Sub", broadcastCases);
