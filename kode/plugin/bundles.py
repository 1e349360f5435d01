"""What kode makes of a bundle's parts, for plug-ins that find and keep bundles."""

from kode.extensions.bundles import *  # noqa: F403
