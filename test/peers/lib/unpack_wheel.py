"""Takes bin/ and conf/ of a Flink distribution out of its Python wheel: unpack_wheel.py WHEEL FOLDER."""
import os
import sys
import zipfile

wheel, folder = sys.argv[1:]
with zipfile.ZipFile(wheel) as z:
    for name in z.namelist():
        if name.endswith("/") or not name.startswith(("pyflink/bin/", "pyflink/conf/")):
            continue
        to = os.path.join(folder, name[len("pyflink/"):])
        os.makedirs(os.path.dirname(to), exist_ok=True)
        with open(to, "wb") as f:
            f.write(z.read(name))
        if "/bin/" in name:
            os.chmod(to, 0o755)
