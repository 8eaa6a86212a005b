// @ts-check
// Exchanges the token for a cookie that no script can read.

const form = /** @type {HTMLFormElement} */ (document.getElementById('login'));
const token = /** @type {HTMLInputElement} */ (document.getElementById('token'));
const problem = /** @type {HTMLElement} */ (document.getElementById('problem'));

form.addEventListener('submit', async event => {
  event.preventDefault();
  problem.textContent = '';
  try {
    const answer = await fetch('/login', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ token: token.value }),
    });
    if (answer.ok) {
      location.assign('/');
    } else {
      problem.textContent = (await answer.json()).problem;
      token.select();
    }
  } catch {
    problem.textContent = 'The console does not answer.';
  }
});
