"""What lies outside the layers: embedding, head, positions, the final norm."""

from __future__ import annotations

from kvdoctor.roofline.family import Family
from kvdoctor.roofline.keys import Keys, refusal
from kvdoctor.roofline.shape import Layer, Weight


def outer_weights(
    keys: Keys, name: str, family: Family, hidden: int, is_tied: bool, layers: int
) -> tuple[Weight, ...]:
    """Embedding V*H, head V*H unless tied, learned positions, per-layer embeddings (Gemma 3n), final norm."""
    vocab = keys.positive("vocab_size")
    width = keys.optional("word_embed_proj_dim") or hidden
    found = [
        Weight("embed_tokens", "embedding", vocab, width),
        Weight(
            "norm", "norm", 1, hidden * (2 if family.norm_bias else 1), 1, "replicated", quantizable=False
        ),
    ]
    if not is_tied:
        found.append(Weight("lm_head", "head", hidden, vocab))
    if family.positions == "learned":
        # OPT keeps two rows more than positions.
        rows = keys.count("max_position_embeddings", "n_positions") + (2 if name == "opt" else 0)
        found.append(Weight("embed_positions", "embedding", rows, hidden, split="replicated"))
    if size := keys.optional("hidden_size_per_layer_input"):
        rows = keys.count("vocab_size_per_layer_input", default=vocab)
        found.append(Weight("embed_tokens_per_layer", "embedding", rows, layers * size))
        found.append(Weight("per_layer_projection", "dense", hidden, layers * size, split="replicated"))
    if inputs := keys.optional("altup_num_inputs"):
        found.append(Weight("altup_projections", "dense", hidden, hidden, 2 * (inputs - 1), "replicated"))
    return tuple(found)


def rope_dim(keys: Keys, family: Family, layers: tuple[Layer, ...]) -> int:
    """Values of a head that the rotary table covers; 0 for learned or no positions."""
    cache = next((layer.cache for layer in layers if layer.cache), None)
    if cache is None or family.positions != "rope":
        return 0
    if cache.latent:
        return cache.v_dim
    explicit = keys.optional("rotary_dim")
    fraction = keys.raw("partial_rotary_factor", "rotary_pct")
    if explicit:
        return explicit
    if fraction is None:
        fraction = family.rotary
    if not isinstance(fraction, (int, float)) or not 0 <= fraction <= 1:
        raise refusal("partial_rotary_factor", f"is {fraction!r}")
    return round(cache.k_dim * fraction)
