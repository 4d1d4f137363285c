// The page as a whole: the connection to the battle, header and panel, and the clock.

const at = (id) => document.getElementById(id);
const SPEEDS = [0.25, 0.5, 1, 2, 4, 8];
const AGAIN_MS = 1000;
const REFUSED = 1008;

/** Say one line in the header. */
function tell(ok, line) {
  at("said").dataset.ok = ok;
  at("said").textContent = line;
}

function element(tag, values = {}, ...children) {
  const made = Object.assign(document.createElement(tag), values);
  made.append(...children);
  return made;
}

const battle = new Battle();
const field = new Field(at("chart"), at("ground"), battle);
const orders = new Orders(field, battle, send, tell);
const stick = new Stick(field, battle, orders, send, tell);
const film = new Film(battle, field, tell);
let channel = null, isTold = false, frames = 0;

function connect() {
  // Beside the page: a proxy may serve it below a path of its own, or by https.
  const place = new URL("ws", location.href.replace(/[?#].*/, "")), token = encodeURIComponent(facts.token);
  channel = new WebSocket(`${place.href.replace(/^http/, "ws")}?token=${token}`);
  channel.onmessage = ({ data }) => hear(JSON.parse(data));
  channel.onclose = ({ code, reason }) => {
    stick.drop(); // the battle has let it go
    if (code === REFUSED) tell(false, reason);
    else if (!isTold) {
      tell(false, `no connection: the ${facts.watches ? "run has ended, or was stopped" : "battle waits"}; trying again`);
      setTimeout(connect, AGAIN_MS);
    }
  };
}

/** Send a message; return false without a connection. */
function send(message) {
  if (facts.watches) return false;
  const isOpen = channel.readyState === WebSocket.OPEN;
  if (isOpen) channel.send(JSON.stringify(message));
  else tell(false, "no connection: nothing was sent");
  return isOpen;
}

const HEARD = {
  begin: (message) => {
    battle.about = message;
    tell(true, `you command ${facts.team}`);
  },
  report: ({ battles: [report], driven }) => {
    if (!report) return;
    battle.take(report, performance.now());
    stick.hear(driven);
    show();
  },
  rollout: (message) => film.take(message),
  refused: ({ errors }) => {
    battle.pending.clear();
    if (errors[0].startsWith("drive")) stick.drop();
    tell(false, errors[0]);
  },
  pace: ({ paused, speed }) => {
    Object.assign(battle, { paused, speed });
    showPace();
  },
  end: ({ won_by: winner }) => {
    battle.winner = winner;
    stick.drop();
    const words = { own: "You won", enemy: "The enemy won", nobody: "Draw" }[winner];
    at("result").hidden = false;
    at("result").replaceChildren(element("strong", { textContent: words }), element("span", { id: "watch", textContent: "creating the replay" }));
  },
  result: () => tell(true, "the battle is over"),
  replay: ({ path }) => {
    isTold = true;
    const link = element("a", { id: "replay", href: `${path.slice(1)}?token=${encodeURIComponent(facts.token)}`, target: "_blank", textContent: "watch the battle" });
    at("watch").replaceChildren(link);
  },
};

function hear(message) {
  HEARD[message.type]?.(message);
}

const clock = (seconds) => `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, "0")}`;

/** Header and packs, of the last report. */
function show() {
  const { report } = battle, { own, enemy, to_win: toWin } = report.score_s, { control } = report;
  at("clock").textContent = `${clock(report.time_s)} / ${clock(report.ends_s)}`;
  for (const [id, team, seconds] of [["own", facts.team, own], ["enemy", ENEMY, enemy]]) {
    at(id).textContent = `${team} ${seconds.toFixed(1)} of ${toWin} s`;
    Object.assign(at(id).style, { background: TEAM_LOOKS[team].fill, color: TEAM_LOOKS[team].text });
  }
  const [yours, theirs] = facts.watches ? [facts.team, ENEMY] : ["yours", "theirs"];
  at("zone").textContent = control.own && control.enemy ? "zone contested" : control.own ? `zone ${yours}` : control.enemy ? `zone ${theirs}` : "zone empty";
  at("packs").replaceChildren(...battle.packs.map(card));
  at("drive").lastChild.textContent = battle.driven ? ` let ${battle.driven} go` : ` drive ${stick.offered ?? "a mech"}`;
  at("drive").setAttribute("aria-pressed", battle.driven !== null);
}

function bar(share, title, isHot = false) {
  const fill = element("i", { className: isHot ? "hot" : "" });
  fill.style.width = `${Math.round(100 * Math.min(share, 1))}%`;
  return element("span", { className: "bar", title }, fill);
}

/** A pack as a button: who lives, what it was told, who heard it. */
function card(pack) {
  const order = battle.order(pack), none = facts.watches ? "" : "no orders", heard = pack.mechs.filter((mech) => mech.heard).length;
  const fire = order?.fire && order.fire !== "free" ? `, fire: ${order.fire}` : "";
  const told = order ? `${order.kind}${order.target ? ` ${order.target}` : ""}${fire} · heard by ${heard} of ${pack.alive}` : none;
  const rows = pack.mechs.flatMap((mech) => [
    element("span", { textContent: mech.name.split("_")[1] }),
    element("span", { textContent: mech.hull, className: mech.under_fire ? "bad" : "" }),
    bar(mech.hp, `${Math.round(100 * mech.hp)} % hp, ${Math.round(100 * mech.heat)} % heat`, mech.hp < 0.35),
  ]);
  const made = element("button", { type: "button", className: "pack" },
    element("strong", { textContent: `Pack ${pack.pack + 1}` }), ` ${pack.alive} of ${pack.of}`,
    element("span", { className: "order", textContent: pack.alive ? told : "lost" }), element("span", { className: "mechs" }, ...rows));
  made.setAttribute("aria-pressed", pack.pack === battle.selected);
  made.addEventListener("pointerdown", () => choose(pack.pack));
  return made;
}

function choose(pack) {
  orders.select(pack);
  show();
}

function showPace() {
  at("pause").textContent = battle.paused ? "Continue" : "Pause";
  at("pause").setAttribute("aria-pressed", battle.paused);
  at("speed").value = battle.speed;
}

function drive() {
  stick.toggle();
  show();
}

const pause = () => send({ pause: !battle.paused });
const step = () => send({ step: 1 });
const setSpeed = (speed) => send({ speed });

/** The next slower or faster of the speeds. */
function shift(by) {
  const number = SPEEDS.indexOf(battle.speed) + by;
  if (number >= 0 && number < SPEEDS.length) setSpeed(SPEEDS[number]);
}

const OTHER_KEYS = [" ", ".", "+", "=", "-", "e", "Escape"];

function pressed(event) {
  if (isShortcut(event) || event.target.tagName === "SELECT") return;
  const key = meaningOf(event, (key) => key in KEYS || key in FIRE_KEYS || OTHER_KEYS.includes(key));
  if (stick.key(event, true)) {
    event.preventDefault();
    return;
  }
  if (key === " ") pause();
  else if (key === ".") step();
  else if (["+", "=", "-"].includes(key)) shift(key === "-" ? -1 : 1);
  else if (battle.report && (key === "e" || (key === "Escape" && battle.driven))) drive();
  else if (battle.report && orders.key(key)) show();
  else return;
  document.activeElement?.blur(); // else Space would press the button that was clicked last
  event.preventDefault();
}

function draw(time) {
  if (film.play(time) && battle.report) {
    show();
    at("result").hidden = !battle.winner;
    at("result").textContent = `${battle.winner} won`;
  }
  stick.flush(time);
  field.drawAt(time);
  frames++;
  requestAnimationFrame(draw);
}

function begin() {
  document.body.classList.toggle("watches", facts.watches);
  if (facts.watches) tell(true, "waiting for the next rollout");
  at("speed").append(...SPEEDS.map((speed) => element("option", { value: speed, textContent: `${speed}×` })));
  at("speed").addEventListener("change", () => {
    setSpeed(Number(at("speed").value));
    at("speed").blur(); // so that keys order again
  });
  at("pause").addEventListener("click", pause);
  at("step").addEventListener("click", step);
  at("drive").addEventListener("click", () => battle.report && drive());
  for (const key of [...Object.keys(KEYS), ...Object.keys(FIRE_KEYS)]) {
    const button = element("button", { type: "button" }, element("kbd", { textContent: key.toUpperCase() }), ` ${WORDS[KEYS[key]] ?? WORDS[key]}`);
    button.addEventListener("click", () => battle.report && orders.key(key) && show());
    at("orders").append(button);
  }
  field.canvas.addEventListener("pointermove", () => (at("where").textContent = orders.cursor.join(", ")));
  field.canvas.addEventListener("pointerdown", () => battle.report && show());
  document.addEventListener("keydown", pressed);
  document.addEventListener("keyup", (event) => stick.key(event, false));
  new ResizeObserver(() => field.measure()).observe(at("map"));
  field.measure();
  showPace();
  connect();
  requestAnimationFrame(draw);
}

/** Interface for scripts. */
window.echelon = {
  frames: () => frames,
  report: () => battle.report,
  selected: () => battle.selected,
  paused: () => battle.paused,
  driven: () => battle.driven,
  winner: () => battle.winner,
  isConnected: () => channel?.readyState === WebSocket.OPEN,
  drop: () => channel.close(),
  place: (name) => battle.place(name, performance.now()),
  spot: (x, y) => {
    const { left, top } = at("chart").getBoundingClientRect(), [right, down] = field.spot(x, y);
    return [left + right, top + down];
  },
};
begin();
