// Bytes out of base64, and bits out of bytes, the lowest first.
const fromBase64 = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
const bitOf = (bytes, place) => (bytes[place >> 3] >> (place & 7)) & 1;
