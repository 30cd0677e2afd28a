'use strict';
// rhea against Headgate. HEADGATE_URL says where the broker is; it has the queues rhea-0 to rhea-19, all empty.

const assert = require('node:assert/strict');
const { test } = require('node:test');
const rhea = require('rhea');

const url = new URL(process.env.HEADGATE_URL);
let nextQueue = 0;
const newQueue = () => `/queues/rhea-${nextQueue++}`;

/** The next event of a name; a session or a connection that the broker ends is an error unless it was asked for. */
function event(emitter, name, seconds = 10) {
    return new Promise((resolve, reject) => {
        const timer = setTimeout(() => reject(new Error(`no ${name} within ${seconds} s`)), seconds * 1000);
        emitter.once(name, (context) => { clearTimeout(timer); resolve(context); });
    });
}

/** Run a test with a connection of its own. */
async function connected(options, body) {
    const container = rhea.create_container();
    const connection = container.connect(Object.assign({
        host: url.hostname, port: url.port, username: url.username, password: url.password, reconnect: false,
    }, options));
    const failures = [];
    for (const name of ['connection_error', 'session_error', 'protocol_error', 'error']) {
        connection.on(name, (context) => failures.push(`${name}: ${context.error || context}`));
    }
    connection.on('disconnected', (context) => context.error && failures.push(`disconnected: ${context.error}`));
    try {
        await event(connection, 'connection_open');
        await body(connection);
        assert.deepEqual(failures, []);
    } finally {
        const closed = event(connection, 'connection_close');
        connection.close();
        await closed;
    }
}

/** Send bodies as link credit allows; resolves when the broker has settled every one, with what it said. */
function publish(sender, bodies) {
    const outcomes = new Map();
    const waiting = [...bodies];
    return new Promise((resolve) => {
        const more = () => { while (waiting.length && sender.sendable()) sender.send({ body: waiting.shift() }); };
        for (const outcome of ['accepted', 'rejected', 'released', 'modified']) {
            sender.on(outcome, (context) => {
                outcomes.set(context.delivery.id, outcome);
                if (outcomes.size === bodies.length) resolve([...outcomes.values()]);
            });
        }
        sender.on('sendable', more);
        more();
    });
}

/** Collect messages until there are n. */
function take(receiver, n, each = (context) => context.delivery.accept()) {
    return new Promise((resolve) => {
        const bodies = [];
        const listener = (context) => {
            bodies.push(context.message.body);
            each(context);
            if (bodies.length === n) { receiver.removeListener('message', listener); resolve(bodies); }
        };
        receiver.on('message', listener);
    });
}

const upTo = (n) => Array.from({ length: n }, (_, index) => index);
const manual = { credit_window: 0, autoaccept: false, autosettle: true };

test('ten thousand messages on one connection and one session', () => connected({}, async (connection) => {
    const queue = newQueue();
    const receiver = connection.open_receiver({ source: queue, autoaccept: false });
    const taken = take(receiver, 10000);
    const outcomes = await publish(connection.open_sender(queue), upTo(10000));
    assert.ok(outcomes.every((outcome) => outcome === 'accepted'));
    assert.deepEqual(await taken, upTo(10000));
}));

test('link credit by hand, some more while some is left', () => connected({}, async (connection) => {
    const queue = newQueue();
    await publish(connection.open_sender(queue), upTo(30));
    const receiver = connection.open_receiver({ source: queue, ...manual });
    const bodies = [];
    receiver.on('message', (context) => { bodies.push(context.message.body); context.delivery.accept(); });
    await event(receiver, 'receiver_open');
    for (const credit of [5, 10, 1]) {
        receiver.add_credit(credit);
        receiver.add_credit(1);
    }
    receiver.drain_credit();
    await event(receiver, 'receiver_drained');
    assert.deepEqual(bodies, upTo(19));
}));

test('link credit of 2^32 - 1', () => connected({}, async (connection) => {
    const queue = newQueue();
    const receiver = connection.open_receiver({ source: queue, ...manual });
    receiver.add_credit(0xffffffff);
    const taken = take(receiver, 600);
    await publish(connection.open_sender(queue), upTo(600));
    assert.deepEqual(await taken, upTo(600));
}));

test('drain with nothing there', () => connected({}, async (connection) => {
    const receiver = connection.open_receiver({ source: newQueue(), ...manual });
    await event(receiver, 'receiver_open');
    receiver.add_credit(10);
    receiver.drain_credit();
    await event(receiver, 'receiver_drained');
    assert.equal(receiver.credit, 0);
}));

test('messages of many frames both ways', () => connected({ max_frame_size: 512 }, async (connection) => {
    const queue = newQueue();
    const body = 'ä'.repeat(200000);
    const taken = take(connection.open_receiver({ source: queue, autoaccept: false }), 3);
    await publish(connection.open_sender(queue), [body, 'short', body]);
    assert.deepEqual(await taken, [body, 'short', body]);
}));

test('request and reply through a dynamic node', () => connected({}, async (connection) => {
    const queue = newQueue();
    const server = connection.create_session();
    server.begin();
    server.open_receiver(queue).on('message', (context) => connection.send(
        { to: context.message.reply_to, correlation_id: context.message.correlation_id, body: 'answer' }));
    const answers = connection.open_receiver({ source: { dynamic: true } });
    await event(answers, 'receiver_open');
    assert.match(answers.source.address, /^\/queues\/amq\.dyn-/);
    const answer = event(answers, 'message');
    const sender = connection.open_sender(queue);
    await event(sender, 'sendable');
    sender.send({ reply_to: answers.source.address, correlation_id: 7, body: 'question' });
    const { message } = await answer;
    assert.deepEqual([message.body, message.correlation_id], ['answer', 7]);
}));

test('outcomes of a consumer, and what comes back', () => connected({}, async (connection) => {
    const queue = newQueue();
    await publish(connection.open_sender(queue), ['accept', 'reject', 'release', 'modified']);
    const receiver = connection.open_receiver({ source: queue, ...manual });
    receiver.add_credit(4);
    await take(receiver, 4, ({ delivery, message }) => ({
        accept: () => delivery.accept(),
        reject: () => delivery.reject({ condition: 'amqp:not-allowed' }),
        release: () => delivery.release(),
        modified: () => delivery.modified({ delivery_failed: true, undeliverable_here: false }),
    })[message.body]());
    const counts = [];
    receiver.add_credit(2);
    const again = await take(receiver, 2, ({ delivery, message }) => {
        counts.push(message.delivery_count || 0);
        delivery.accept();
    });
    assert.deepEqual([again, counts], [['release', 'modified'], [0, 1]]);
}));

test('what a closed link had not settled goes to the next, in order', () => connected({}, async (connection) => {
    const queue = newQueue();
    await publish(connection.open_sender(queue), upTo(10));
    const first = connection.open_receiver({ source: queue, credit_window: 0, autoaccept: false, autosettle: false });
    first.add_credit(7);
    await take(first, 7, () => {});
    first.close();
    const second = connection.open_receiver({ source: queue, ...manual });
    second.add_credit(10);
    assert.deepEqual(await take(second, 10), upTo(10));
}));

test('settled both ways', () => connected({}, async (connection) => {
    const queue = newQueue();
    const receiver = connection.open_receiver({ source: queue, snd_settle_mode: 1 });
    const taken = take(receiver, 500, (context) => assert.ok(context.delivery.remote_settled));
    const sender = connection.open_sender({ target: queue, snd_settle_mode: 1 });
    let sent = 0;
    sender.on('sendable', () => { while (sent < 500 && sender.sendable()) sender.send({ body: sent++ }); });
    assert.deepEqual(await taken, upTo(500));
}));

test('a refused link says why, and only the link is refused', () => connected({}, async (connection) => {
    const sender = connection.open_sender('/queues/nowhere');
    await event(sender, 'sender_error');
    assert.deepEqual([sender.error.condition, sender.error.description],
        ['amqp:not-found', "there is no queue 'nowhere'"]);
    const receiver = connection.open_receiver('/queues/nowhere');
    await event(receiver, 'receiver_error');
    assert.equal(receiver.error.condition, 'amqp:not-found');
}));

test('an anonymous sender', () => connected({}, async (connection) => {
    const queue = newQueue();
    const sender = connection.open_sender({ target: {} });
    await event(sender, 'sendable');
    sender.send({ to: queue, body: 1 });
    await event(sender, 'accepted');
    sender.send({ to: '/queues/nowhere', body: 2 });
    const { delivery } = await event(sender, 'rejected');
    assert.equal(delivery.remote_state.error.description, "there is no queue 'nowhere'");
    const receiver = connection.open_receiver(queue);
    assert.deepEqual(await take(receiver, 1, () => {}), [1]);
}));

test('an idle time-out of half a second', () => connected({ idle_time_out: 500 }, async (connection) => {
    await new Promise((resolve) => setTimeout(resolve, 1500));
    assert.ok(connection.is_open());
}));

test('many links and sessions, each with its own link credit', () => connected({}, async (connection) => {
    const queue = newQueue();
    await Promise.all(upTo(20).map(async (number) => {
        const session = connection.create_session();
        session.begin();
        await publish(session.open_sender({ target: queue, name: `s${number}` }), upTo(250));
        session.close();
    }));
    const receiver = connection.open_receiver({ source: queue, autoaccept: false });
    const bodies = await take(receiver, 5000);
    assert.equal(bodies.reduce((sum, body) => sum + body, 0), 20 * 249 * 125);
}));
