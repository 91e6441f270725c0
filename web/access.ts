// The key that changes need when the page is not opened on the orchestrator's own machine. It is kept for this tab
// only, sent with calls to this origin only, and asked for when a call was refused for want of it.

import { Code, ConnectError, type Interceptor } from "@connectrpc/connect";
import { useSyncExternalStore } from "react";

const storageKey = "dcnr-api-key";

let key = read();
let wanted = false;
const listeners = new Set<() => void>();

function read(): string {
  try {
    return sessionStorage.getItem(storageKey) ?? "";
  } catch {
    return "";
  }
}

function tell(): void {
  for (const listener of listeners) listener();
}

const subscribe = (listener: () => void) => {
  listeners.add(listener);
  return () => void listeners.delete(listener);
};

/** An empty one forgets what was given. */
export function giveKey(entered: string): void {
  key = entered.trim();
  wanted = false;
  try {
    if (key) sessionStorage.setItem(storageKey, key);
    else sessionStorage.removeItem(storageKey);
  } catch {
    // Without storage the key lasts as long as the page.
  }
  tell();
}

export function askForKey(): void {
  wanted = true;
  tell();
}

export function dismissKey(): void {
  wanted = false;
  tell();
}

export function useKeyWanted(): boolean {
  return useSyncExternalStore(subscribe, () => wanted);
}

/** The key itself, for what is asked again with another one; never shown. */
export function useKey(): string {
  return useSyncExternalStore(subscribe, () => key);
}

export function noteRefusal(thrown: unknown): void {
  const { code } = ConnectError.from(thrown);
  if (code === Code.Unauthenticated || code === Code.PermissionDenied) askForKey();
}

export const withKey: Interceptor = (next) => async (request) => {
  if (key) request.header.set("authorization", `Bearer ${key}`);
  return next(request);
};
