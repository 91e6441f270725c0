// What the machine that lies is called (liar.ts): mutants that believe it have to know.

export const liarName = "liar";
