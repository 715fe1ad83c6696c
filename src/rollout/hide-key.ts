/** Keeps the key of a server out of what is told, whoever put it there: a proxy may send back what it was sent. */

/** Shorter ones are no secrets, and parts of words. */
const LEAST_CHARS = 8;

/** A function that replaces `key`, as it is and as JSON writes it, by `<key>` in a text. */
export function keyHider(key: string | undefined): (text: string) => string {
  if (key === undefined || key.length < LEAST_CHARS) return (text) => text;
  const forms = new Set([key, JSON.stringify(key).slice(1, -1)]);
  return (text) => [...forms].reduce((rest, form) => rest.replaceAll(form, '<key>'), text);
}
