// Formats of strings as patterns: whatever they allow is of the format. Of dates and times that is all there is; of addresses the usual
// form of them, so that no answer is anything else.

const month30 = "(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)";
const month31 = "(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])";
const leapYear = "(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)";
const date = `(?:\\d{4}-(?:${month30}|${month31}|02-(?:0[1-9]|1\\d|2[0-8]))|${leapYear}-02-29)`;
const hour = "(?:[01]\\d|2[0-3])";
const time = `${hour}:[0-5]\\d:[0-5]\\d(?:\\.\\d{1,9})?(?:Z|[+-]${hour}:[0-5]\\d)`;
const label = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,30}[A-Za-z0-9])?";
const octet = "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";

export const formats: Readonly<Record<string, string>> = {
  date: `^${date}$`,
  time: `^${time}$`,
  "date-time": `^${date}T${time}$`,
  uuid: "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$",
  ipv4: `^${octet}(?:\\.${octet}){3}$`,
  ipv6: "^[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){7}$",
  hostname: `^${label}(?:\\.${label}){0,5}$`,
  email: `^[A-Za-z0-9_+-]{1,30}(?:\\.[A-Za-z0-9_+-]{1,30}){0,1}@(?:${label}\\.){1,3}[A-Za-z]{2,12}$`,
};
