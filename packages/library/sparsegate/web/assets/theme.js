// Light and dark: the system's choice, until the button is pressed.
const root = document.documentElement;
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const repaints = []; // what draws on a canvas, and so must draw again in other colours

const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
const colours = {}; // asking the browser anew for every line would take longer than drawing it
const colour = (name) => (colours[name] ??= getComputedStyle(root).getPropertyValue(`--${name}`).trim());
const data = (name) => JSON.parse(document.getElementById(`data-${name}`)?.textContent ?? "null");
const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

function onRepaint(paint) {
  repaints.push(paint);
  paint();
}

function showTheme() {
  const button = document.getElementById("theme");
  button.textContent = isDark() ? "Light" : "Dark";
  Object.keys(colours).forEach((name) => delete colours[name]);
  repaints.forEach((paint) => paint());
}

document.getElementById("theme").addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  showTheme();
});
dark.addEventListener("change", showTheme);
showTheme();
