/** Texts as characters: code points, so that none outside the basic plane is cut in two. */

/** At most the first `most` characters. */
export const firstCharacters = (text: string, most: number): string =>
  text.length <= most ? text : [...text].slice(0, most).join('');

/** Each two neighbouring characters, in order, repeats included; none for a text of one character. */
export function characterPairs(text: string): string[] {
  const characters = [...text];
  return characters.slice(1).map((character, i) => characters[i]! + character);
}

/** Composed letters and digits alone, lower case: what is left when spacing and punctuation are changed. */
export const lettersAndDigits = (text: string): string =>
  text
    .normalize('NFKC')
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]+/gu, '');
