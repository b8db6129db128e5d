"""A collector of blogs that knows only JSON over NATS: takes tasks of its type from their queue."""

import asyncio
import json
import os
from datetime import UTC, datetime
from typing import Any
from urllib.request import urlopen
from xml.etree import ElementTree

import nats

TYPE = os.environ.get("TIPO", "blog")


def articles(address: str) -> list[dict[str, str]]:
    """The items of an RSS feed."""
    with urlopen(address, timeout=30) as answer:  # noqa: S310 # the tasks are trusted
        items = ElementTree.fromstring(answer.read(8_000_000)).iter("item")  # noqa: S314
        return [
            {
                "tipo": "documento",
                "url": one.findtext("link", ""),
                "titulo": one.findtext("title", ""),
                "texto": one.findtext("description", ""),
            }
            for one in items
        ]


async def main() -> None:
    """Answers each task, and only then acknowledges it: what a crash interrupts comes again."""
    client = await nats.connect(os.environ["NATS_URL"], nkeys_seed=os.environ.get("NATS_KEY"))
    stream = client.jetstream()
    queue = await stream.pull_subscribe_bind(TYPE, stream="YTC_QUEUES")
    print(f"serving {TYPE}", flush=True)
    while True:
        try:
            [message] = await queue.fetch(1, timeout=10)
        except (TimeoutError, nats.errors.Error):  # nothing waits, or the queue is not made yet
            await asyncio.sleep(1)
            continue
        asked = json.loads(message.data)
        task = asked["payload"]
        result: dict[str, Any] = {"status": "concluida", "dados": [], "erros": []}
        try:
            result["dados"] = await asyncio.to_thread(articles, task["parametros"]["endereco"])
        except (OSError, KeyError, ElementTree.ParseError) as error:
            again = isinstance(error, OSError)
            fault = {"motivo": "BLOG_ILEGIVEL", "mensagem": str(error), "repetivel": again}
            result |= {"status": "erro", "erros": [fault]}
        answer = asked | {"tipo_evento": "resultado_coleta"}
        answer["payload"] = {"tarefa_id": task["tarefa_id"], **result}
        answer["timestamp"] = datetime.now(UTC).isoformat()
        await stream.publish("ytc.in.resultado_coleta", json.dumps(answer).encode())
        await message.ack()


asyncio.run(main())
