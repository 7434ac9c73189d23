// The page's script: it asks for the token, fetches the view again and again, and
// brings the page up to date without replacing what has not changed.
'use strict';

const every = 1000; // ms between two looks
const patience = 10000; // ms that one look may take
const tokenKey = 'millrace.token';
const queryKey = 'millrace.query';

const $ = (id) => document.getElementById(id);
const view = $('view');
let query = restore();
let timer = 0;
let looking = null; // the request under way
let failures = 0;
let paused = false;

function restore() {
  try {
    return JSON.parse(sessionStorage.getItem(queryKey)) || {};
  } catch {
    return {};
  }
}

function set(changes) {
  query = { ...query, ...changes };
  for (const key of Object.keys(query)) {
    if (!query[key] || query[key] === '0') delete query[key];
  }
  sessionStorage.setItem(queryKey, JSON.stringify(query));
  look();
}

function text(element, words) {
  if (element.textContent !== words) element.textContent = words;
}

// enter shows the form. why says what was wrong with the last token.
function enter(why) {
  clearTimeout(timer);
  if (looking) looking.abort();
  looking = null;
  sessionStorage.removeItem(tokenKey);
  view.replaceChildren();
  document.title = 'Millrace';
  $('controls').hidden = true;
  $('lost').hidden = true;
  $('enter').hidden = false;
  $('why').hidden = !why;
  text($('why'), why);
  $('token').value = '';
  $('token').focus();
}

// look fetches the view now; the next look comes by itself.
async function look() {
  clearTimeout(timer);
  const token = sessionStorage.getItem(tokenKey);
  if (!token) {
    enter('');
    return;
  }
  if (looking) looking.abort();
  const mine = (looking = new AbortController());
  const late = setTimeout(() => mine.abort(), patience);
  try {
    const answer = await fetch('/console/view?' + new URLSearchParams(query), {
      headers: { Authorization: 'Bearer ' + token }, signal: mine.signal, cache: 'no-store',
    });
    if (answer.status === 401) {
      enter('The node does not take this token.');
      return;
    }
    const body = await answer.text();
    if (mine !== looking) return;
    if (!answer.ok) throw new Error(refusal(body) || answer.statusText);
    show(body);
    failures = 0;
  } catch (problem) {
    if (mine !== looking) return; // a newer look is under way
    failures++;
    lose(problem);
  } finally {
    clearTimeout(late);
    if (mine === looking) {
      looking = null;
      again();
    }
  }
}

function refusal(body) {
  try {
    return JSON.parse(body).error;
  } catch {
    return '';
  }
}

// again plans the next look: not while nobody sees it, and less often while it fails.
function again() {
  clearTimeout(timer);
  if (paused || document.hidden || !sessionStorage.getItem(tokenKey)) return;
  timer = setTimeout(look, Math.min(every * 2 ** failures, 8000));
}

function show(body) {
  const fresh = document.createElement('template');
  fresh.innerHTML = body;
  const root = document.createElement('div');
  root.id = 'view';
  root.append(fresh.content);
  morph(view, root);
  $('enter').hidden = true;
  $('controls').hidden = false;
  $('lost').hidden = true;
  view.classList.remove('stale');
  const head = view.querySelector('.head');
  if (head) {
    text($('said'), head.dataset.said);
    document.title = head.dataset.title + ': ' + head.dataset.said + ' Millrace';
  }
  text($('live'), (paused ? 'paused at ' : 'live ') + new Date().toLocaleTimeString('en-GB', { timeZone: 'UTC' }) + ' UTC');
}

function lose(problem) {
  const words = problem.name === 'TypeError' ? 'the node does not answer' : problem.name === 'AbortError' ? 'the node is slow to answer' : problem.message;
  $('lost').hidden = false;
  text($('lost'), 'Not up to date: ' + words + '. Trying again.');
  text($('live'), 'not connected');
  view.classList.add('stale');
}

// morph makes old look like fresh. Elements of one data-key are the same element; what
// a reader opened or closed stays so, until there is trouble in it.
function morph(old, fresh) {
  if (fresh.localName === 'details' && fresh.open && fresh.dataset.trouble && !old.dataset.trouble) old.open = true;
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !(name === 'open' && old.localName === 'details') && name !== 'class') old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (name === 'open' && old.localName === 'details') continue;
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  if (!fresh.hasAttribute('class') && old.hasAttribute('class') && old !== view) old.removeAttribute('class');
  const keyed = new Map();
  for (const child of old.children) {
    if (child.dataset.key) keyed.set(child.dataset.key, child);
  }
  let at = old.firstChild;
  for (const want of [...fresh.childNodes]) {
    const key = want.dataset && want.dataset.key;
    let have = key ? keyed.get(key) : at;
    if (!key && have && have.dataset && have.dataset.key) have = null;
    if (!have || have.nodeType !== want.nodeType || have.nodeName !== want.nodeName) {
      old.insertBefore(want, at);
      continue;
    }
    if (have === at) at = at.nextSibling;
    else old.insertBefore(have, at);
    if (have.nodeType === Node.ELEMENT_NODE) morph(have, want);
    else if (have.data !== want.data) have.data = want.data;
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

$('enter').addEventListener('submit', (event) => {
  event.preventDefault();
  sessionStorage.setItem(tokenKey, $('token').value.trim());
  $('token').value = '';
  look();
  $('main').focus();
});

$('forget').addEventListener('click', () => {
  sessionStorage.removeItem(queryKey);
  query = {};
  enter('');
});

$('pause').addEventListener('click', () => {
  paused = !paused;
  $('pause').setAttribute('aria-pressed', String(paused));
  text($('pause'), paused ? 'Go on' : 'Pause');
  look();
});

let typing = 0;
$('search').value = query.search || '';
$('search').addEventListener('input', () => {
  clearTimeout(typing);
  typing = setTimeout(() => set({ search: $('search').value.trim(), offset: '', page: '', factory: '' }), 150);
});

view.addEventListener('click', (event) => {
  const button = event.target.closest('button[data-set]');
  if (!button) return;
  const { set: name, to, factory } = button.dataset;
  set(name === 'page' ? { factory, page: to } : name === 'troubled' ? { troubled: to, offset: '' } : { [name]: to });
});

document.addEventListener('visibilitychange', () => {
  if (!document.hidden && !paused) look();
});

look();
