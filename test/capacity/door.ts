// The one way out of a network namespace: a proxy inside it hands each connection to a socket in a folder, and whoever listens
// there connects to one host and to nothing else. No interface, route or filter of this machine is touched.
//   node door.ts PORT SOCKET: the side inside.

import { connect, createServer, type Server, type Socket } from "node:net";

const headBytesMax = 8_192;

/** Passes on what comes after "CONNECT host:port HTTP/1.1". */
function answer(socket: Socket, host: string): void {
  let head = Buffer.alloc(0);
  socket.on("error", () => socket.destroy());
  socket.on("data", function read(piece: Buffer) {
    head = Buffer.concat([head, piece]);
    const end = head.indexOf("\r\n\r\n");
    if (end < 0) return void (head.length > headBytesMax && socket.destroy());
    socket.off("data", read);
    socket.pause();
    const [, wanted, port] = /^CONNECT ([^ :]+):(\d+) /.exec(head.toString("latin1")) ?? [];
    if (wanted !== host) return void socket.end("HTTP/1.1 403 Forbidden\r\n\r\n");
    const out = connect(Number(port), host, () => {
      socket.write("HTTP/1.1 200 OK\r\n\r\n");
      out.write(head.subarray(end + 4));
      socket.pipe(out).pipe(socket);
    });
    out.on("error", () => socket.destroy());
    socket.on("close", () => out.destroy());
  });
}

export async function openDoor(path: string, host: string): Promise<Server> {
  const server = createServer((socket) => answer(socket, host));
  await new Promise<void>((resolve) => server.listen(path, resolve));
  return server;
}

const [port, path] = process.argv.slice(2);
if (import.meta.main && port && path)
  createServer((socket) => {
    const out = connect(path);
    for (const one of [socket, out]) one.on("error", () => one.destroy());
    socket.pipe(out).pipe(socket);
    socket.on("close", () => out.destroy());
    out.on("close", () => socket.destroy());
  }).listen(Number(port), "127.0.0.1");
