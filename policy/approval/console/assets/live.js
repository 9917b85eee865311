// Follows the desk: when something changed, the page is fetched again and its
// main part replaced. What a person is typing is never lost.
(() => {
  const url = document.currentScript.dataset.events;
  const main = () => document.getElementById("main");
  const typing = () => [...document.querySelectorAll("main input:not([type=hidden])")].some((i) => i.value !== i.defaultValue || i.checked !== i.defaultChecked || i === document.activeElement);
  let busy = false, again = false;

  async function refresh() {
    if (busy) { again = true; return; }
    busy = true;
    try {
      const page = await fetch(location.href, { credentials: "same-origin", headers: { Accept: "text/html" } });
      const next = new DOMParser().parseFromString(await page.text(), "text/html");
      const fresh = next.getElementById("main");
      if (!fresh || fresh.innerHTML === main().innerHTML) return;
      if (typing()) { document.getElementById("stale").hidden = false; return; }
      const open = [...main().querySelectorAll("details")].map((d) => d.open);
      main().replaceWith(fresh);
      [...main().querySelectorAll("details")].forEach((d, i) => { if (i in open) d.open = open[i]; });
      document.title = next.title;
      const nav = document.querySelector("header nav"), freshNav = next.querySelector("header nav");
      if (nav && freshNav) nav.replaceWith(freshNav);
    } catch {
      // The daemon is away; the stream connects again and refreshes then.
    } finally {
      busy = false;
      if (again) { again = false; refresh(); }
    }
  }

  const source = new EventSource(url);
  let opened = false;
  source.addEventListener("open", () => { if (opened) refresh(); opened = true; });
  source.addEventListener("change", refresh);
  setInterval(() => { if (!document.hidden) refresh(); }, 30000);
})();
