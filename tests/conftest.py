from jaxtyping import install_import_hook
install_import_hook("wellposed", "beartype.beartype")
