"""What the audit log gets of a request to watch a question."""

from hopsyncd.api.requests import WatchRequest


def test_the_audit_log_gets_no_tokens_of_webhooks_and_programs() -> None:
    posted = WatchRequest(question="Who?", webhook="http://127.0.0.1:9000/hook/s3cr3t?token=s3cr3t")
    started = WatchRequest(question="Who?", exec=("/usr/bin/tell", "--token", "s3cr3t"))
    assert posted.model_dump(mode="json", exclude_unset=True) == {
        "webhook": "http://127.0.0.1:9000"
    }
    assert started.model_dump(mode="json", exclude_unset=True) == {"exec": ["/usr/bin/tell"]}
