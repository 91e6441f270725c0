import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { newIdentity } from "../../system/keys.ts";
import { formatInviteLink, joinedBy, parseInviteLink } from "./invite-link.ts";

const key = newIdentity().id;
const link = {
  addresses: ["lab.example:7700", "[2001:db8::1]:7701"],
  key,
  token: "abcdefgh-secret",
  name: "Our lab & friends",
};

describe("an invite's link", () => {
  it("carries addresses, key, token and name there and back", () => {
    assert.deepEqual(parseInviteLink(formatInviteLink(link)), link);
    const bare = { ...link, token: "", name: "" };
    assert.deepEqual(parseInviteLink(formatInviteLink(bare)), bare);
    assert.ok(!formatInviteLink(bare).includes("?"));
  });

  it("is all that a machine needs to join", () => {
    const { addresses, invite } = joinedBy([formatInviteLink(link)]);
    assert.deepEqual(addresses, [`lab.example:7700#${key}`, `[2001:db8::1]:7701#${key}`]);
    assert.equal(invite, link.token);
    assert.deepEqual(joinedBy(["a:1", "b:2"]), { addresses: ["a:1", "b:2"], invite: "" });
    assert.throws(() => joinedBy([formatInviteLink(link), "a:1"]), /give it alone/);
  });

  it("that was cut or changed is said to be so", () => {
    const whole = formatInviteLink({ ...link, token: "", name: "" });
    for (const wrong of [
      whole.slice(0, -1),
      "dcnr://lab.example:7700",
      "dcnr:///x",
      `dcnr://lab.example/${key}`,
      "dcnr://",
    ])
      assert.throws(() => parseInviteLink(wrong), /the link is damaged|is not an address/, wrong);
  });
});
