// Pictures as the input of a network: the whole picture in the middle of the network's image, with its sides in proportion.
function fitted(picture, [, height, width]) {
  const [wide, high] = [picture.videoWidth || picture.width, picture.videoHeight || picture.height];
  const scale = Math.min(width / wide, height / high);
  return { width: wide * scale, height: high * scale, left: (width - wide * scale) / 2, top: (height - high * scale) / 2 };
}

function pixelsOf(picture, about) {
  const [channels, height, width] = about.picture;
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [width, height];
  const spot = canvas.getContext("2d", { willReadFrequently: true });
  spot.fillStyle = "black";
  spot.fillRect(0, 0, width, height);
  const place = fitted(picture, about.picture);
  spot.drawImage(picture, place.left, place.top, place.width, place.height);
  return planes(spot.getImageData(0, 0, width, height).data, channels, height * width, about);
}

// One plane of numbers for each channel; one channel is the brightness.
function planes(bytes, channels, size, { mean, spread }) {
  const made = new Float32Array(channels * size);
  for (let place = 0; place < size; place++) {
    const [red, green, blue] = [bytes[4 * place], bytes[4 * place + 1], bytes[4 * place + 2]];
    const colours = channels === 1 ? [0.299 * red + 0.587 * green + 0.114 * blue] : [red, green, blue];
    colours.forEach((value, channel) => {
      made[channel * size + place] = (value - mean[channel % mean.length]) / spread[channel % spread.length];
    });
  }
  return made;
}
