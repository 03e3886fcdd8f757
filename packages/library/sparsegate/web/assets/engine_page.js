// Loads the network, feeds it pictures or numbers, and shows what it computes.
const about = data("engine");
const says = document.getElementById("says");
const list = document.getElementById("found");

const unpacked = (text) =>
  new Response(new Blob([fromBase64(text)]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();

const numberText = (value) => String(Number(Number(value).toPrecision(5)));

function showList(lines) {
  list.replaceChildren(
    ...lines.map((line) => Object.assign(document.createElement("li"), { textContent: line })),
  );
}

function classLines({ data: logits }) {
  const most = logits.reduce((one, other) => Math.max(one, other), -Infinity);
  const powers = Array.from(logits, (value) => Math.exp(value - most));
  const all = powers.reduce((sum, power) => sum + power, 0);
  const order = powers.map((_, index) => index).sort((one, other) => powers[other] - powers[one]);
  return order.slice(0, 5).map((index) => `${about.names[index] ?? `class ${index}`}: ${((100 * powers[index]) / all).toFixed(1)} %`);
}

const numberLines = (results) =>
  Object.entries(results).map(([name, { data: values, shape }]) => {
    const first = Array.from(values.slice(0, 8), numberText).join(", ");
    return `${name} [${shape.join(", ")}]: ${first}${values.length > 8 ? ", ..." : ""}`;
  });

// Draws the picture, and the faces that were found in it.
function paint(picture, found) {
  const canvas = document.getElementById("shown");
  const spot = canvas.getContext("2d");
  const [wide, high] = [picture.videoWidth || picture.width, picture.videoHeight || picture.height];
  const scale = Math.min(1, 960 / wide, 720 / high);
  [canvas.width, canvas.height] = [wide * scale, high * scale];
  spot.drawImage(picture, 0, 0, canvas.width, canvas.height);
  const place = fitted(picture, about.picture);
  const x = (part) => ((part * about.picture[2] - place.left) / place.width) * canvas.width;
  const y = (part) => ((part * about.picture[1] - place.top) / place.height) * canvas.height;
  [spot.strokeStyle, spot.fillStyle, spot.lineWidth] = [colour("glow"), colour("glow"), 3];
  found.forEach((face) => {
    spot.strokeRect(x(face.left), y(face.top), x(face.right) - x(face.left), y(face.bottom) - y(face.top));
    face.points.forEach(([across, down]) => spot.fillRect(x(across) - 2, y(down) - 2, 4, 4));
  });
}

function show(results, picture, milliseconds) {
  const outputs = Object.values(results);
  const time = `${milliseconds.toFixed(1)} ms`;
  if (about.show === "faces") {
    const boxes = outputs.find((one) => one.shape.at(-1) === 16), scores = outputs.find((one) => one.shape.at(-1) === 1);
    const found = faces(boxes.data, scores.data, about.picture[2]);
    says.textContent = `${found.length === 1 ? "One face" : `${found.length} faces`} found in ${time}.`;
    showList(found.map((face) => `${(100 * face.likely).toFixed(0)} % sure`));
    paint(picture, found);
    return found;
  }
  says.textContent = `Computed in ${time}.`;
  showList(about.show === "classes" ? classLines(outputs[0]) : numberLines(results));
  if (picture) paint(picture, []);
  return results;
}

const random = (one) => {
  const count = one.shape.reduce((all, size) => all * size, 1);
  if (one.type === "int64") return new BigInt64Array(count); // zero is an index of every table
  if (one.type === "bool") return new Uint8Array(count).fill(1);
  return Float32Array.from({ length: count }, () => 2 * Math.random() - 1);
};

async function prepare() {
  const [image, engine] = await Promise.all([unpacked(about.image), unpacked(about.engine)]);
  const network = await Network.load(image, engine);
  const timed = (inputs, picture) => {
    const began = performance.now();
    const results = network.run(inputs);
    return show(results, picture, performance.now() - began);
  };
  const look = (picture) => timed([pixelsOf(picture, about)], picture);
  return { network, look, timed };
}

function takePictures(look) {
  const drop = document.getElementById("drop"), camera = document.getElementById("camera");
  const open = async (file) => {
    try {
      look(await createImageBitmap(file));
    } catch {
      says.textContent = `${file.name} cannot be shown as a picture by this browser.`;
    }
  };
  document.getElementById("file").addEventListener("change", ({ target }) => target.files[0] && open(target.files[0]));
  drop.addEventListener("dragover", (event) => event.preventDefault());
  drop.addEventListener("drop", (event) => {
    event.preventDefault();
    if (event.dataTransfer.files[0]) open(event.dataTransfer.files[0]);
  });
  camera.hidden = !navigator.mediaDevices?.getUserMedia;
  camera.addEventListener("click", () => film(look).catch(() => (says.textContent = "The camera is missing, or this page may not use it.")));
}

// The camera's pictures, one after another.
async function film(look) {
  const video = document.createElement("video");
  video.srcObject = await navigator.mediaDevices.getUserMedia({ video: true });
  video.muted = true;
  await video.play();
  const next = () => {
    look(video);
    requestAnimationFrame(next);
  };
  next();
}

const ready = prepare().then((made) => {
  says.textContent = about.picture ? "Ready for a picture." : "Ready.";
  if (about.picture) takePictures(made.look);
  else document.getElementById("run").addEventListener("click", () => made.timed(made.network.inputs.map(random)));
  return made;
});
ready.catch((error) => (says.textContent = error.message));
window.sparsegate = { ready, faces };
