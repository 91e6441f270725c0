// The owner's page of a machine that is lent: the screen's words in a browser on the machine itself, with buttons to
// pause, resume, finish or leave. It listens on loopback alone, and answers no other site's page.

import { randomBytes } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { DcnrError } from "../../core/errors.ts";
import { pageText } from "./page-text.ts";
import { type LendingState, lendingTexts } from "./screen.ts";
import { type Wish, wishes } from "./wishes.ts";

export interface LendingPage {
  readonly address: string;
  close(): void;
}

export interface LentMachineView {
  readonly state: LendingState | undefined;
  wish(wish: Wish): Promise<void>;
}

const wishBytesMax = 100;

/** Where somebody else listens for it: gives the port, and the connections. */
export type PageDoor = (welcome: (socket: Socket) => void) => Promise<number>;

/** `port` 0: any that is free. */
export async function openLendingPage(machine: LentMachineView, port: number, door?: PageDoor): Promise<LendingPage> {
  // Known to the page alone: another site that guesses the port cannot press its buttons.
  const token = randomBytes(18).toString("base64url");
  let bound = 0;
  const server = createServer({ maxHeaderSize: 8_192, requestTimeout: 10_000 }, (request, response) => {
    void answer(machine, token, request, response, bound).catch(() => response.writeHead(500).end());
  });
  if (door) {
    bound = await door((socket) => server.emit("connection", socket));
    return pageAt(bound, server);
  }
  await new Promise<void>((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) => {
      const sentence = `--page: port ${port} is in use on this machine; choose another, or leave it out`;
      reject(error.code === "EADDRINUSE" ? new DcnrError("failed_precondition", sentence) : error);
    });
    server.listen(port, "127.0.0.1", resolve);
  });
  server.unref();
  bound = (server.address() as AddressInfo).port;
  return pageAt(bound, server);
}

function pageAt(port: number, server: Server): LendingPage {
  return {
    address: `http://127.0.0.1:${port}/`,
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}

async function answer(
  machine: LentMachineView,
  token: string,
  request: IncomingMessage,
  response: ServerResponse,
  port: number,
): Promise<void> {
  const end = (status: number) => void response.writeHead(status, { connection: "close" }).end();
  const hosts = [`127.0.0.1:${port}`, `localhost:${port}`];
  const { host = "", origin } = request.headers;
  // A name of somebody else's that leads here is not us, and another site's page is not ours.
  if (!hosts.includes(host)) return end(403);
  if (origin !== undefined && !hosts.some((own) => origin === `http://${own}`)) return end(403);
  const asked = `${request.method} ${request.url}`;
  if (asked === "GET /") return page(response, token);
  if (request.headers["x-token"] !== token) return end(403);
  if (asked === "GET /state") return state(response, machine);
  if (asked !== "POST /wish") return end(404);
  const text = await bodyOf(request);
  const wished = wishes.find((wish) => wish === text);
  if (wished === undefined) return end(400);
  await machine.wish(wished);
  return state(response, machine);
}

function page(response: ServerResponse, token: string): void {
  const nonce = randomBytes(12).toString("base64url");
  response
    .writeHead(200, {
      "content-type": "text/html; charset=utf-8",
      "cache-control": "no-store",
      "content-security-policy": `default-src 'none'; script-src 'nonce-${nonce}'; style-src 'nonce-${nonce}'; connect-src 'self'; frame-ancestors 'none'`,
      "referrer-policy": "no-referrer",
      "x-content-type-options": "nosniff",
    })
    .end(pageText(token, nonce));
}

function state(response: ServerResponse, machine: LentMachineView): void {
  const { state } = machine;
  const shown = state && {
    ...lendingTexts(state),
    ...{ name: state.name, network: state.network, lends: state.lends, reach: state.reach },
    ...{ wish: state.wish, problems: state.problems, update: state.news?.update ?? "", log: state.log },
  };
  response.writeHead(200, { "content-type": "application/json", "cache-control": "no-store" });
  response.end(JSON.stringify(shown ?? null));
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of request) {
    text += chunk;
    if (text.length > wishBytesMax) return "";
  }
  return text;
}
