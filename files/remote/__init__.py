"""Files in stores on the network: asked again where a request fails, and kept on disk by blocks."""
