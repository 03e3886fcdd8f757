"""A mixin that gives a model class `save_pretrained`, `from_pretrained` and `push_to_hub`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from huggingface_hub import ModelCard, ModelHubMixin
from torch import nn

from sparsegate.files import compress, encode_sg

from .hub import FILE, LIBRARY, from_hub
from .model_card import Records, card_text

DOCS = "https://github.com/sparsegate/sparsegate"
USE = """model = {kind}.from_pretrained("{repo_id}")"""


class SparseHubMixin(ModelHubMixin, library_name=LIBRARY, docs_url=DOCS):  # type: ignore[call-arg]
    """Stores a model on the hub as `model.sg`, with the settings of its constructor.

        class Net(nn.Module, SparseHubMixin):
            def __init__(self, width: int = 300): ...

        net.push_to_hub("me/net")
        net = Net.from_pretrained("me/net")

    It works like `PyTorchModelHubMixin` of huggingface_hub, with a sparse file and our card.
    `model_card_kwargs` may contain `record`, `speed` and `license`, as in `sparsegate.push_to_hub`.
    """

    def _save_pretrained(self, save_directory: Path) -> None:
        compress(self._network()).save(Path(save_directory) / FILE)

    @classmethod
    def _from_pretrained(
        cls,
        *,
        model_id: str,
        revision: str | None,
        cache_dir: str | Path | None,
        force_download: bool,
        local_files_only: bool,
        token: str | bool | None,
        **model_kwargs: Any,
    ) -> Any:
        packed = from_hub(
            model_id,
            revision=revision,
            cache_dir=cache_dir,
            force_download=force_download,
            local_files_only=local_files_only,
            token=token,
        )
        model: Any = cls(**model_kwargs)
        return packed.into(model).eval()

    def push_to_hub(
        self, repo_id: str, *, model_card_kwargs: dict[str, Any] | None = None, **options: Any
    ) -> str:
        """Uploads the model; see `huggingface_hub.ModelHubMixin.push_to_hub` for the arguments.

        Args:
            repo_id: the repository.
            model_card_kwargs: arguments of `generate_model_card`.
            options: the other arguments.
        """
        about = {"repo_id": repo_id, **(model_card_kwargs or {})}
        return str(super().push_to_hub(repo_id, model_card_kwargs=about, **options))

    def generate_model_card(
        self,
        repo_id: str = "OWNER/NAME",
        record: Path | str | dict[str, Any] | None = None,
        speed: Path | str | dict[str, Any] | None = None,
        license: str | None = None,  # noqa: A002
    ) -> ModelCard:
        """The card; see `sparsegate.push_to_hub` for the arguments.

        Args:
            repo_id: the repository.
            record: the record of a run.
            speed: the record of a comparison of speeds.
            license: the license of the weights.
        """
        packed = compress(self._network())
        text = card_text(
            packed,
            repo_id,
            records=Records.read(record, speed),
            sizes={FILE: len(encode_sg(packed.entries, packed.same)[0])},
            license=license,
            use=USE.replace("{kind}", type(self).__name__),
        )
        return ModelCard(text)

    def _network(self) -> nn.Module:
        assert isinstance(self, nn.Module), "the mixin belongs to a module"
        return self
