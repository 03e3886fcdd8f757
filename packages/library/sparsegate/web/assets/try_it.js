// Ties pad, network, answer and picture together.
const network = data("network") && buildNetwork(data("network"));

function paintPixels(canvas, pixels, [, height, width]) {
  const ink = rgb(colour("ink"));
  const image = new ImageData(width, height);
  pixels.forEach((value, place) => image.data.set([...ink, value], 4 * place));
  [canvas.width, canvas.height] = [width, height];
  canvas.getContext("2d").putImageData(image, 0, 0);
}

function rgb(text) {
  const spot = document.createElement("canvas").getContext("2d");
  spot.fillStyle = text;
  spot.fillRect(0, 0, 1, 1);
  return spot.getImageData(0, 0, 1, 1).data.slice(0, 3);
}

function startTrying() {
  const wires = makeWires(document.getElementById("wires"), network);
  const pad = makePad(document.getElementById("pad"), () => ask(null));
  const rows = [...document.getElementById("chances").children];
  const [says, view] = [document.getElementById("says"), document.getElementById("view")];
  let [given, waiting, pixels] = [null, false, null];

  function ask(sample) {
    given = sample;
    if (!waiting) requestAnimationFrame(answer);
    waiting = true;
  }

  function answer() {
    waiting = false;
    pixels = given ?? centred(pad.ink(), pad.side, network.about.image);
    const empty = pixels.every((value) => value === 0);
    document.getElementById("pad-hint").hidden = !empty;
    paintPixels(view, pixels, network.about.image);
    const seen = empty ? null : network.run(network.normalise(pixels));
    show(seen && softmax(seen[seen.length - 1].data));
    wires.show(seen);
  }

  function nameOf(best) {
    return rows[best].querySelector(".name").textContent;
  }

  function show(chances) {
    const best = chances ? chances.indexOf(Math.max(...chances)) : -1;
    rows.forEach((row, place) => {
      const percent = chances ? 100 * chances[place] : 0;
      row.classList.toggle("best", place === best);
      row.querySelector(".fill").style.width = `${percent}%`;
      row.querySelector(".share").textContent = chances ? `${percent.toFixed(1)} %` : "";
    });
    const words = chances ? `The network says ${nameOf(best)}: ${(100 * chances[best]).toFixed(1)} %.` : "Nothing drawn yet.";
    if (says.textContent !== words) says.textContent = words;
  }

  const samples = network.about.samples.map(fromBase64);
  [...document.querySelectorAll("#samples button")].forEach((button, place) => {
    const thumbnail = button.querySelector("canvas");
    onRepaint(() => paintPixels(thumbnail, samples[place], network.about.image));
    button.addEventListener("click", () => {
      pad.show(thumbnail);
      ask(samples[place]);
    });
  });
  document.getElementById("pad-clear").addEventListener("click", pad.clear);
  onRepaint(() => pixels && paintPixels(view, pixels, network.about.image));
}

if (network) {
  startTrying();
  window.sparsegate = { network, centred }; // for programs, and the tests
}
