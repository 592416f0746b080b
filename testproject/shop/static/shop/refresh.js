// Keep what is marked with data-refresh="seconds" up to date, until the server sends it without the mark.
const marked = () => document.querySelector("[data-refresh]");

async function refresh() {
  const old = marked();
  try {
    const response = await fetch(location.href, { headers: { Accept: "text/html" } });
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const fresh = response.ok && page.getElementById(old.id);
    if (fresh) old.replaceWith(fresh);
  } catch {
    // The server is away for a moment; the next try will tell.
  }
  plan();
}

function plan() {
  const element = marked();
  if (element) setTimeout(refresh, element.dataset.refresh * 1000);
}

plan();
