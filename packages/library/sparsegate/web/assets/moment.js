// One slider moves the cursors of all charts and the gates' histogram.
const moments = data("moments");

function startMoments() {
  const [slider, says, play] = ["moment", "moment-says", "play"].map((id) => document.getElementById(id));
  const gates = document.getElementById("chart-gates");
  const bars = gates ? [...gates.querySelectorAll("rect")] : [];
  let timer = 0;

  function show() {
    const moment = moments[Number(slider.value)];
    says.textContent = moment.says;
    slider.setAttribute("aria-valuetext", moment.says);
    for (const name of ["accuracy", "loss", "kept"]) moveCursor(document.getElementById(`chart-${name}`), moment.x, moment[name]);
    const [top, floor, most] = ["top", "floor", "most"].map((name) => Number(gates?.dataset[name]));
    moment.gates.forEach((count, place) => {
      const height = count ? Math.max(1.5, (floor - top) * (Math.log10(count) / Math.log10(most))) : 0;
      bars[place].setAttribute("height", height);
      bars[place].setAttribute("y", floor - height);
    });
  }

  function stop() {
    clearInterval(timer);
    timer = 0;
    play.textContent = "Play";
  }

  play.addEventListener("click", () => {
    if (timer) return stop();
    if (Number(slider.value) === moments.length - 1) slider.value = 0;
    play.textContent = "Pause";
    show();
    timer = setInterval(() => {
      slider.value = Number(slider.value) + 1;
      show();
      if (Number(slider.value) === moments.length - 1) stop();
    }, Math.max(60, 4000 / moments.length));
  });
  slider.addEventListener("input", () => {
    stop();
    show();
  });
  show();
}

function moveCursor(chart, x, y) {
  const [line, dot] = [chart.querySelector(".cursor"), chart.querySelector(".dot")];
  line.setAttribute("x1", x);
  line.setAttribute("x2", x);
  dot.setAttribute("visibility", y === undefined ? "hidden" : "visible");
  if (y === undefined) return;
  dot.setAttribute("cx", x);
  dot.setAttribute("cy", y);
}

if (moments) startMoments();
